package bidding

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Begin is a table for a task that has no machine yet: it decides when to wait for a better price instead of
// beginning. It is the recursion with waiting as an action (WCSSI, equations 3 to 8), by the remaining work and time.
// The task waits at prices between two limits. At or below the lower limit, beginning is expected to cost no more
// than waiting a step. At or above the upper limit, the price stays high for so long that beginning on demand is
// better.
type Begin struct {
	// StepHours is the length of a step. Work and Slack are the table's sizes in steps.
	StepHours float64 `json:"stepHours"`
	Work      int     `json:"work"`
	Slack     int     `json:"slack"`
	// Above and Below are the lower and the upper limit in USD per hour and machine, at index slack·(Work+1)+work. If
	// Above is 0, the task never waits. If Below is 0, there is no upper limit.
	Above Cells `json:"above"`
	Below Cells `json:"below"`
}

// beginGain is the minimum saving that justifies waiting, as a share of the expected cost of beginning now. Smaller
// savings are below the precision of the chain's price levels.
const beginGain = 0.03

// NewBegin builds the table of a task. Errors wrap ErrModel, or are the context's.
func NewBegin(ctx context.Context, l LiveTask) (*Begin, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	b := &Begin{}
	b.StepHours, b.Work, b.Slack = l.steps()
	m := l.model(b.StepHours)
	m.ReleaseUSD = 0 // nothing is held
	table, err := BuildRun(ctx, m, b.Work+1, b.Work+1+b.Slack)
	if err != nil {
		return nil, err
	}
	defer table.free()
	n := (b.Slack + 1) * (b.Work + 1)
	b.Above, b.Below = make([]float32, n), make([]float32, n)
	for work := 0; work <= b.Work; work++ {
		// The limits are monotonic: a task with less slack never waits for a lower price than one with more.
		above, below := 0.0, math.Inf(1)
		for slack := b.Slack; slack >= 0; slack-- {
			lo, hi := table.waits(float64(max(work, 1)), float64(max(work, 1)+slack))
			if above, below = max(lo, above), min(hi, below); lo <= 0 || above >= below {
				break // with less slack the task does not wait either
			}
			at := slack*(b.Work+1) + work
			b.Above[at] = float32(above / b.StepHours)
			if !math.IsInf(below, 1) {
				b.Below[at] = float32(below / b.StepHours)
			}
		}
	}
	return b, nil
}

// waits returns the limits of the step prices between which a task without a machine waits; above is 0 if there are
// none.
func (t *Table) waits(work, time float64) (above, below float64) {
	usd, gain := 0.0, 0.0 // of the level before
	for q := range t.levels {
		if t.model.fresh(q) {
			break // the remaining states are twins; see WithMoves
		}
		u := float64(t.model.spotUSD(q, int(time)))
		g := t.waitGain(work, time, q)
		switch {
		case g > 0 && q == 0:
			above = u // there is no cheaper level
		case above == 0 && g > 0:
			above = usd + gain/(gain-g)*(u-usd)
		case above > 0 && g <= 0:
			return above, usd + gain/(gain-g)*(u-usd)
		}
		usd, gain = u, g
	}
	return above, math.Inf(1)
}

// waitGain returns what waiting a step saves compared to beginning, minus the share beginGain of the cost of
// beginning.
func (t *Table) waitGain(work, time float64, q int) float64 {
	c := t.Choose(work, time, q, float64(t.model.spotUSD(q, int(time))), OnNothing)
	return min(c.Spot, c.OnDemand)*(1-beginGain) - c.Wait
}

// Waits reports whether to wait at a price (USD per hour) with the given hours of work and of time left. begin is the
// price at which to begin.
func (b *Begin) Waits(usd, work, left float64) (begin float64, wait bool) {
	if len(b.Above) == 0 || b.StepHours <= 0 {
		return math.Inf(1), false
	}
	i := min(max(int(math.Ceil(work/b.StepHours-1e-9)), 0), b.Work)
	s := min(max(int(math.Floor((left-work)/b.StepHours+1e-9)), 0), b.Slack)
	above, below := float64(b.Above[s*(b.Work+1)+i]), float64(b.Below[s*(b.Work+1)+i])
	if above <= 0 {
		return math.Inf(1), false
	}
	return above, usd > above*(1+1e-6) && (below <= 0 || usd < below)
}

// Any reports whether the task waits at any price.
func (b *Begin) Any() bool {
	return slices.ContainsFunc(b.Above, func(usd float32) bool { return usd > 0 })
}

func (l *LiveTask) check() error {
	switch {
	case !(l.Work > 0) || math.IsInf(l.Work, 0):
		return fmt.Errorf("%w: %v hours of work", ErrModel, l.Work)
	case !(l.USD > 0) || !(l.OnDemandUSD > 0):
		return fmt.Errorf("%w: prices of %v and %v USD", ErrModel, l.USD, l.OnDemandUSD)
	case !(l.LossesPerHour >= 0) || !(l.Restart >= 0):
		return fmt.Errorf("%w: %v losses per hour that cost %v hours each", ErrModel, l.LossesPerHour, l.Restart)
	}
	return nil
}

// steps returns the length of a step in hours and the numbers of steps of work and of slack.
func (l *LiveTask) steps() (step float64, work, slack int) {
	step = max(l.Work/maxWorkSteps, (l.Left-l.Work)/maxSlackSteps, minStepHours)
	return step, int(math.Ceil(l.Work/step - 1e-9)), max(int(math.Ceil((l.Left-l.Work)/step-1e-9)), 0)
}
