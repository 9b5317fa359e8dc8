package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// heardOf is a price as the broker has it in its records, and since when.
type heardOf struct {
	weather.Quote
	committed time.Time
}

// Knows notes what the broker is told of a price before the history begins.
func (c *Checker) Knows(m record.MarketRecord) {
	c.heardOf[m.Offer] = []heardOf{{weather.Quote{At: m.At, USD: m.USD}, timeline.Beginning()}}
}

// marketRecord notes what the broker knows of a price.
func (c *Checker) marketRecord(w *store.Write) {
	if w.Op != store.Put {
		return
	}
	m := decode[record.MarketRecord](c, w)
	known := c.heardOf[m.Offer]
	if m.USD > 0 && (len(known) == 0 || known[len(known)-1].USD != m.USD) {
		c.heardOf[m.Offer] = append(known, heardOf{weather.Quote{At: m.At, USD: m.USD}, c.Now})
	}
}

// missedFor is how long, where the broker's own parts work, a machine that is gone may be booked on before it is
// missed; bookedWithin how long ago the broker may have looked at prices by which it books.
const (
	missedFor    = 20 * time.Minute
	bookedWithin = 10 * time.Minute
)

// Bill is what a job's machines have really cost.
func (c *Checker) Bill(s *Job) float64 {
	usd := 0.0
	for _, m := range s.machines {
		usd += c.billBy(m, c.sky.Market(weather.ListingOf(m.Offer)))
	}
	return usd
}

// billOf is what the machines of a cluster have cost, by the price as it went or as somebody has heard of it.
func (c *Checker) billOf(s *Job, cluster string, by weather.Course) float64 {
	usd := 0.0
	for _, m := range s.machines {
		if m.Cluster == cluster {
			usd += c.billBy(m, by)
		}
	}
	return usd
}

// untold is what the machines have cost more than the broker could know. A price that rises is told with the next look,
// and those whose attempt is booked had ended by then.
func (c *Checker) untold(s *Job) float64 {
	usd := 0.0
	for _, a := range s.order {
		id := a.cluster
		switch listing := weather.ListingOf(a.Offer); {
		case !a.Offer.Spot:
		case s.released[id].IsZero():
			usd += c.passedOver(s, id, listing)
		default:
			usd += max(c.billOf(s, id, c.sky.Market(listing))-a.USD, 0)
		}
	}
	return usd
}

// passedOver is what the machines of a cluster have cost more by prices that came and went between two looks. It says
// nothing of the time since the last price that the broker has heard of: for that a lease has room.
func (c *Checker) passedOver(s *Job, cluster, listing string) float64 {
	known := c.heardOf[listing]
	if len(known) == 0 {
		return 0
	}
	real, last := c.sky.Market(listing), known[len(known)-1].At
	by := weather.Course{real[0]}
	for _, h := range known {
		by = append(by, h.Quote)
	}
	usd := 0.0
	for _, m := range s.machines {
		to := last
		if !m.Alive() && m.Ended.Before(to) {
			to = m.Ended
		}
		if m.Cluster == cluster && to.After(m.Launched) {
			usd += m.cost(real, m.Launched, to) - m.cost(by, m.Launched, to)
		}
	}
	return max(usd, 0)
}

// booked compares what each attempt is said to have cost with what its machines did, at the prices that the broker had
// heard of when it was booked: never less, if the broker had heard of them, and not much more.
func (c *Checker) booked(s *Job) {
	for _, a := range s.order {
		id := a.cluster
		if a.Assigned() {
			continue // nobody sends a bill
		}
		least, most := c.bills(s, a.Attempt, id)
		refused := a.Outcome == apitypes.OutcomeRefused
		heard := s.heard[id] || refused && a.Reason == s.late[id]
		if refused && s.unended[id] {
			continue // its cloud took no calls, which does not hold up failover: reconcile ended what was left of it
		}
		if heard && a.USD < least-Rounding {
			c.Violatef(InvBooked, "%s is booked with %.6f USD, its machines cost %.6f", id, a.USD, least)
		}
		over := c.dearest(a.Attempt, s.released[id]) * float64(a.Nodes) * missedFor.Hours()
		if !c.Stormy && a.USD > most+over {
			c.Violatef(InvBooked, "%s is booked with %.6f USD, its machines cost only %.6f", id, a.USD, most)
		}
	}
	if l := s.Ledger; s.Record.State.Over() && math.Abs(l.SpentUSD-s.Record.USD) > Rounding {
		c.Violatef(InvBooked, "%s is said to have cost %.6f USD, its ledger says %.6f", s.ID, s.Record.USD, l.SpentUSD)
	}
}

// dearest is the highest price, USD an hour, by which a machine may have been booked on after it was gone: the broker
// heard of it while it had not missed the machine yet.
func (c *Checker) dearest(a apitypes.Attempt, released time.Time) float64 {
	usd := max(a.Offer.USDPerHour, a.RateUSD)
	for _, h := range c.heardOf[weather.ListingOf(a.Offer)] {
		if a.Offer.Spot && h.committed.Before(released) && h.committed.After(released.Add(-missedFor)) {
			usd = max(usd, h.USD)
		}
	}
	return usd
}

// bills are the least and the most that an attempt may be booked with: by what was known shortly before it was, and by
// what was known then.
func (c *Checker) bills(s *Job, a apitypes.Attempt, id string) (least, most float64) {
	if !a.Offer.Spot {
		usd := c.billOf(s, id, nil)
		return usd, usd
	}
	by := weather.Course{c.sky.Market(weather.ListingOf(a.Offer))[0]}
	least, most = math.Inf(1), 0
	take := func() {
		usd := c.billOf(s, id, by)
		least, most = min(least, usd), max(most, usd)
	}
	released := s.released[id]
	for _, h := range c.heardOf[weather.ListingOf(a.Offer)] {
		if h.committed.After(released) {
			break
		}
		if c.Stormy || h.committed.After(released.Add(-bookedWithin)) {
			take()
		}
		by = append(by, h.Quote)
	}
	take()
	if c.Stormy { // looks that fail pass over what changed between
		for i := range by {
			by[i].USD = slices.MinFunc(by, func(x, y weather.Quote) int { return cmp.Compare(x.USD, y.USD) }).USD
		}
		take()
	}
	return least, most
}
