package bidding

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// LiveTask is a task on a spot market that a broker supervises. The broker cannot bid hour by hour, but it can leave
// when price or time require it and resume elsewhere from the last checkpoint.
type LiveTask struct {
	// Prices is the learned price model of the market, USD its current price, and OnDemandUSD the on-demand price of
	// the same machine, both USD per hour.
	Prices           *market.Online
	USD, OnDemandUSD float64
	// Work is the remaining work and Left the time until the deadline, in hours.
	Work, Left float64
	// LossesPerHour is the rate at which machines are lost. Restart is the cost of a loss in hours: finding and
	// booting another machine, staging data, and repeating the work since the last checkpoint.
	LossesPerHour, Restart float64
}

// Worth is the table that a broker keeps for a task: the maximum price at which an hour on spot is worth it, by
// remaining work and time. As long as the price is below, staying is expected to cost less to the end than moving to
// on-demand now.
type Worth struct {
	// StepHours is the length of a step. Work and Slack are the table's sizes in steps.
	StepHours float64 `json:"stepHours"`
	Work      int     `json:"work"`
	Slack     int     `json:"slack"`
	// USD is per hour and machine: USD[slack·(Work+1)+work]. Slack is the time left beyond the work.
	USD Cells `json:"usd"`
}

// The size of a Worth.
const (
	maxWorkSteps  = 24
	maxSlackSteps = 32
	minStepHours  = 1.0 / 6 // minimum length of a step in hours
)

// NewWorth builds the table of a task. Errors wrap ErrModel, or are the context's.
func NewWorth(ctx context.Context, l LiveTask) (*Worth, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	w := &Worth{}
	w.StepHours, w.Work, w.Slack = l.steps()
	step := w.StepHours
	// Only rows with at least this slack allow spot, so the table must have one. Its values also serve
	// smaller slacks.
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
				row[1] = row[0] // a step of work or less is left
				continue
			}
			whole := max(work, 1)
			row[work] = float32(table.worthOfStep(float64(whole), float64(whole+max(slack, open))) / step)
		}
	}
	// With less slack than a lost step needs, the broker decides by time, because it checks more often
	// than once a step.
	for slack := range least {
		copy(w.USD[slack*(w.Work+1):][:w.Work+1], w.USD[least*(w.Work+1):])
	}
	return w, nil
}

// model returns the market with steps of the given hours. It has price levels, may lose a machine at any of them, and
// does not wait.
func (l *LiveTask) model(step float64) Model {
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

// worthOfStep returns the highest price of the next step at which it is not more expensive, over
// the rest of the task, to keep the spot machine than to move to on-demand now. Moving costs a
// start, so this price may be above the on-demand price: a short price spike is tolerated.
func (t *Table) worthOfStep(work, time float64) float64 {
	worth, gain := 0.0, 0.0 // of the level before: the worth of staying, and how far it is above the price
	stays := t.model.Fallback || t.mayRisk(work, time)
	for q := range t.levels {
		if t.model.fresh(q) {
			break // the remaining states are twins; see WithMoves
		}
		usd := float64(t.model.spotUSD(q, int(time)))
		rest := missedCost64 // remaining cost of staying
		if stays && usd < missedCost64 {
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
		// The result is where worth and price are equal, between the last acceptable level and this one.
		low := float64(t.model.spotUSD(q-1, int(time)))
		return low + gain/(gain+usd-most)*(usd-low)
	}
	return worth
}

// MaxUSD returns the maximum price worth paying for an hour of a machine, with the given hours of work and time left.
func (w *Worth) MaxUSD(work, left float64) float64 {
	if len(w.USD) == 0 || w.StepHours <= 0 {
		return 0
	}
	i := min(max(int(math.Ceil(work/w.StepHours-1e-9)), 0), w.Work)
	s := min(max(int(math.Floor((left-work)/w.StepHours+1e-9)), 0), w.Slack)
	return float64(w.USD[s*(w.Work+1)+i])
}
