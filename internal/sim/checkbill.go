package sim

import (
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// heardOf is a price as the broker has it in its records, and since when.
type heardOf struct {
	quote
	committed time.Time
}

// marketRecord notes what the broker knows of a price.
func (c *checker) marketRecord(w *store.Write) {
	if w.Op != store.Put {
		return
	}
	m := decode[record.MarketRecord](c, w)
	known := c.heardOf[m.Offer]
	if m.USD > 0 && (len(known) == 0 || known[len(known)-1].usd != m.USD) {
		c.heardOf[m.Offer] = append(known, heardOf{quote{m.At, m.USD}, c.w.now})
	}
}

// missedFor is how long, where the broker's own parts work, a machine that is gone may be booked on before it is
// missed; bookedWithin how long ago the broker may have looked at prices by which it books.
const (
	missedFor    = 20 * time.Minute
	bookedWithin = 10 * time.Minute
)

// bill is what a job's machines have really cost.
func (s *jobState) bill() float64 {
	usd := 0.0
	for _, m := range s.machines {
		usd += m.bill()
	}
	return usd
}

// billOf is what the machines of a cluster have cost, by the price as it went or as somebody has heard of it.
func (s *jobState) billOf(cluster string, by course) float64 {
	usd := 0.0
	for _, m := range s.machines {
		if m.fleet.name == cluster {
			usd += m.billBy(by)
		}
	}
	return usd
}

// untold is what the machines of attempts that are booked have cost more than the broker could know: a price that rises
// is told with the next look, and they had ended by then.
func (c *checker) untold(s *jobState) float64 {
	usd := 0.0
	for _, k := range s.order {
		id := record.ClusterID(k.job, k.task, k.attempt)
		if a := s.attempts[k]; a.Offer.Spot && !s.released[id].IsZero() {
			usd += max(s.billOf(id, c.w.sky.market(listingOf(a.Offer)))-a.USD, 0)
		}
	}
	return usd
}

// booked compares what each attempt is said to have cost with what its machines did, at the prices that the broker had
// heard of when it was booked: never less, if the broker had heard of them, and not much more.
func (c *checker) booked(s *jobState) {
	for _, k := range s.order {
		id, a := record.ClusterID(k.job, k.task, k.attempt), s.attempts[k]
		if a.Offer.Cloud == record.PoolCloud {
			continue // nobody sends a bill
		}
		least, most := c.bills(s, a, id)
		if s.heard[id] && a.USD < least-rounding {
			c.w.violatef(InvBooked, "%s is booked with %.6f USD, its machines cost %.6f", id, a.USD, least)
		}
		if over := max(a.Offer.USDPerHour, a.RateUSD) * float64(a.Nodes) * missedFor.Hours(); !c.w.stormy &&
			a.USD > most+over {
			c.w.violatef(InvBooked, "%s is booked with %.6f USD, its machines cost only %.6f", id, a.USD, most)
		}
	}
	if l := s.ledger; s.job.State.Over() && math.Abs(l.SpentUSD-s.job.USD) > rounding {
		c.w.violatef(InvBooked, "%s is said to have cost %.6f USD, its ledger says %.6f", s.id, s.job.USD, l.SpentUSD)
	}
}

// bills are the least and the most that an attempt may be booked with: by what was known shortly before it was, and by
// what was known then.
func (c *checker) bills(s *jobState, a record.Attempt, id string) (least, most float64) {
	if !a.Offer.Spot {
		usd := s.billOf(id, nil)
		return usd, usd
	}
	by := course{c.w.sky.market(listingOf(a.Offer))[0]}
	least, most = math.Inf(1), 0
	take := func() {
		usd := s.billOf(id, by)
		least, most = min(least, usd), max(most, usd)
	}
	released := s.released[id]
	for _, h := range c.heardOf[listingOf(a.Offer)] {
		if h.committed.After(released) {
			break
		}
		if c.w.stormy || h.committed.After(released.Add(-bookedWithin)) {
			take()
		}
		by = append(by, h.quote)
	}
	take()
	if c.w.stormy { // looks that fail pass over what changed between
		for i := range by {
			by[i].usd = slices.MinFunc(by, func(x, y quote) int { return int(math.Copysign(1, x.usd-y.usd)) }).usd
		}
		take()
	}
	return least, most
}
