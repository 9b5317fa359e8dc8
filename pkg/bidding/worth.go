package bidding

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Live is a task on a spot market that a broker watches: it cannot bid hour by hour, but it can leave when the price
// or the time says so, and go on elsewhere from the last checkpoint.
type Live struct {
	// Prices has been learned of the market; USD is its price now, OnDemandUSD what such a machine costs on demand, USD
	// per hour.
	Prices           *market.Online
	USD, OnDemandUSD float64
	// Work and Left are the hours of work, and to the moment by which it has to be done.
	Work, Left float64
	// LossesPerHour is how often the machines are taken, and Restart what that costs in hours: another one found and
	// booted, data staged, and the work since the last checkpoint done again.
	LossesPerHour, Restart float64
}

// Worth is what an hour on spot is worth at most, by the work and the time left: the table that a broker keeps for a
// task. While the price is below, staying is expected to cost less to the end than moving on demand now.
type Worth struct {
	// StepHours is the length of a step; Work and Slack are how many steps of each the table holds.
	StepHours float64 `json:"stepHours"`
	Work      int     `json:"work"`
	Slack     int     `json:"slack"`
	// USD is per hour and machine: USD[slack·(Work+1)+work], slack being the time that is left beyond the work.
	USD Cells `json:"usd"`
}

// The size of a Worth.
const (
	worthWork  = 24
	worthSlack = 32
	worthLeast = 1.0 / 6 // hours: no step is shorter
)

// NewWorth builds the table of a task. The error wraps ErrModel, or is the context's.
func NewWorth(ctx context.Context, l Live) (*Worth, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	w := &Worth{}
	w.StepHours, w.Work, w.Slack = l.steps()
	step := w.StepHours
	// At least as much as spot needs to be open at all, so that the table has a last resort to say.
	open := int(math.Ceil(1+l.Restart/step)) + 1
	rows := max(w.Slack, open)
	table, err := BuildRun(ctx, l.model(step), w.Work+1, w.Work+1+rows)
	if err != nil {
		return nil, err
	}
	defer table.free()
	w.USD = make([]float32, (w.Slack+1)*(w.Work+1))
	least := min(open, w.Slack)
	for slack := least; slack <= w.Slack; slack++ {
		row := w.USD[slack*(w.Work+1):][:w.Work+1]
		for work := range row {
			if work == 1 {
				row[1] = row[0] // what is left is a step, or less
				continue
			}
			whole := max(work, 1)
			row[work] = float32(table.worthOfStep(float64(whole), float64(whole+max(slack, open))) / step)
		}
	}
	// With too little slack to lose a whole step the broker, which looks more often, decides by the clock.
	for slack := range least {
		copy(w.USD[slack*(w.Work+1):][:w.Work+1], w.USD[least*(w.Work+1):])
	}
	return w, nil
}

// model is the market with steps of some hours: it has price levels, may take a machine at any of them, and
// does not wait.
func (l *Live) model(step float64) Model {
	prices := l.Prices
	if prices == nil {
		prices = &market.Online{}
	}
	chain := prices.Chain(step, l.USD, l.OnDemandUSD)
	m := PriceModel(chain, l.OnDemandUSD*step, l.Restart/step)
	for q := range m.USD {
		m.USD[q] *= float32(step)
	}
	m.ReleaseUSD = 1e3 * m.OnDemandUSD
	if l.LossesPerHour > 0 && l.Restart > 0 {
		m = WithMoves(m, l.LossesPerHour, hoursOf(step))
	}
	return m
}

// worthOfStep is the highest price of a step on the spot machine that is held at which staying costs no more to the end
// than moving on demand. As moving costs a start, it may be above the on-demand price: a spike that will pass is sat
// out.
func (t *Table) worthOfStep(work, time float64) float64 {
	worth, gain := 0.0, 0.0 // at the level before: what staying is worth, and how much that is above its price
	stays := t.model.Fallback || t.mayRisk(work, time)
	for q := range t.levels {
		if t.model.fresh(q) {
			break // the twins come after the levels
		}
		usd := float64(t.model.spotUSD(q, int(time)))
		rest := never64 // of staying
		if stays && usd < never64 {
			rest = t.costAfter(work, time, q, OnSpot, OnSpot)
		}
		most := t.model.OnDemandUSD + t.costAfter(work, time, q, OnSpot, OnDemand) - rest
		switch {
		case most >= usd:
			worth, gain = most, most-usd
			continue
		case q == 0:
			return max(most, 0)
		}
		// Between the last level worth it and the first that is not, worth and price meet.
		low := float64(t.model.spotUSD(q-1, int(time)))
		return low + gain/(gain+usd-most)*(usd-low)
	}
	return worth
}

// MaxUSD is what an hour of a machine is worth with so many hours of work and time left.
func (w *Worth) MaxUSD(work, left float64) float64 {
	if len(w.USD) == 0 || w.StepHours <= 0 {
		return 0
	}
	i := min(max(int(math.Ceil(work/w.StepHours-1e-9)), 0), w.Work)
	s := min(max(int(math.Floor((left-work)/w.StepHours+1e-9)), 0), w.Slack)
	return float64(w.USD[s*(w.Work+1)+i])
}
