package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// heardOf is a price in the broker's records, and when it was committed.
type heardOf struct {
	weather.Quote
	committed time.Time
}

// KnowPrice records a price that the broker knows before the history begins.
func (c *Checker) KnowPrice(m record.MarketRecord) {
	c.heardOf[m.Offer] = []heardOf{{weather.Quote{At: m.At, USD: m.USD}, timeline.Beginning()}}
}

// marketRecord records a price that the broker has learned.
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

// missedFor is the maximum time for which a machine that no longer runs may still be charged, if the broker's own
// parts work. Within that time its loss must be detected. bookedWithin is the maximum age of the prices by which the
// broker books.
const (
	missedFor    = 20 * time.Minute
	bookedWithin = 10 * time.Minute
)

// Bill returns the real cost of a job's machines, USD.
func (c *Checker) Bill(s *Job) float64 {
	usd := 0.0
	for _, m := range s.machines {
		usd += c.billBy(m, c.sky.Market(weather.ListingOf(m.Offer)))
	}
	return usd
}

// billOf returns the cost of a cluster's machines by the given course of prices, USD.
func (c *Checker) billOf(s *Job, cluster string, by weather.Course) float64 {
	usd := 0.0
	for _, m := range s.machines {
		if m.Cluster == cluster {
			usd += c.billBy(m, by)
		}
	}
	return usd
}

// unknownCost returns the cost, in USD, that the broker could not know. The broker learns of a higher price only at
// its next check of prices, and an attempt may have been booked and have ended before that.
func (c *Checker) unknownCost(s *Job) float64 {
	usd := 0.0
	for _, a := range s.order {
		id := a.cluster
		switch listing := weather.ListingOf(a.Offer); {
		case !a.Offer.Spot:
		case s.released[id].IsZero():
			usd += c.missedSpikes(s, id, listing)
		default:
			usd += max(c.billOf(s, id, c.sky.Market(listing))-a.USD, 0)
		}
	}
	return usd
}

// missedSpikes returns the additional cost of a cluster's machines by prices that rose and fell again between two
// checks of prices. It ignores the time since the last price that the broker knows: leases have room for that.
func (c *Checker) missedSpikes(s *Job, cluster, listing string) float64 {
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

// booked compares the booked cost of each attempt with the real cost of its machines, at the prices that the broker
// knew at the time of the booking. The booked cost must not be much higher. If the broker knew of the machines, it
// must not be lower.
func (c *Checker) booked(s *Job) {
	for _, a := range s.order {
		id := a.cluster
		if a.Assigned() {
			continue // machines of pools have no bill
		}
		least, most := c.bills(s, a.Attempt, id)
		refused := a.Outcome == apitypes.OutcomeRefused
		heard := s.heard[id] || refused && a.Reason == s.late[id]
		if refused && s.unended[id] {
			// the cloud took no calls; failover does not wait for that, and reconcile ended the remaining machines
			continue
		}
		if heard && a.USD < least-Rounding {
			c.Violatef(InvBooked, "%s is booked with %.6f USD, but its machines cost %.6f", id, a.USD, least)
		}
		over := c.highestPrice(a.Attempt, s.released[id]) * float64(a.Nodes) * missedFor.Hours()
		if a.Offer.Service != "" {
			over = c.unbilled(s, a) + a.Offer.USDPerHour*missedPlaceFor.Hours()
		}
		if !c.Stormy && a.USD > most+over {
			c.Violatef(InvBooked, "%s is booked with %.6f USD, but its machines cost only %.6f", id, a.USD, most)
		}
	}
	if l := s.Ledger; s.Record.State.Finished() && math.Abs(l.SpentUSD-s.Record.USD) > Rounding {
		c.Violatef(InvBooked, "%s reports a cost of %.6f USD, but its ledger has %.6f", s.ID, s.Record.USD, l.SpentUSD)
	}
}

// highestPrice returns the highest price, in USD per hour, at which a machine may have been charged after it stopped
// running. The broker may have learned of a price before it detected the loss of the machine.
func (c *Checker) highestPrice(a apitypes.Attempt, released time.Time) float64 {
	usd := max(a.Offer.USDPerHour, a.RateUSD)
	for _, h := range c.heardOf[weather.ListingOf(a.Offer)] {
		if a.Offer.Spot && h.committed.Before(released) && h.committed.After(released.Add(-missedFor)) {
			usd = max(usd, h.USD)
		}
	}
	return usd
}

// bills returns the minimum and maximum cost with which an attempt may be booked: by the prices known shortly before
// the booking, and by those known at that time.
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
	if c.Stormy { // failed looks miss changes in between
		for i := range by {
			by[i].USD = slices.MinFunc(by, func(x, y weather.Quote) int { return cmp.Compare(x.USD, y.USD) }).USD
		}
		take()
	}
	return least, most
}
