package bidding

import (
	"errors"
	"fmt"
	"math"
)

// Model is a spot market as the recursion sees it: a Markov chain over L states with a step of fixed length. Costs are
// USD per step, work and time are counted in steps.
//
// In a market with bids the states are price levels; in one without, they say whether a machine is to be had, and since
// when. Both are the same chain here: a state has a price, or no machine at all.
type Model struct {
	// USD is the price of a step in each state, +Inf where no machine is to be had. Length L.
	USD []float32
	// P is the L×L matrix of transitions by rows: P[s·L+q] is the probability of state q in the step after one in state
	// s (WCSSI, equation 4).
	P []float32
	// OnDemandUSD is the price of a step on demand, where there is always a machine.
	OnDemandUSD float64
	// Restart is what every start of a machine costs before work goes on, in steps: it is paid and does no work. With
	// 0 it does not matter what a task runs on, and the tables hold no state of it.
	Restart float64
	// Fresh marks the states that are entered by the loss of a spot machine while another is to be had at once, as in
	// another zone: to go on there is a start. Nil is none.
	Fresh []bool
	// ReleaseUSD is what a step without progress costs beside: r in equation 7.
	ReleaseUSD float64
	// Fallback says that a step whose price turns out too high can still be worked on demand, so that no whole step is
	// ever lost and a step is worth a bid without any slack: true where the price of a step is known as it begins
	// (WCSSI, assumption 3). The paper goes without: at c = t all is on demand. With a Restart it is the caller who has
	// to see to it that one on demand stays possible.
	Fallback bool
	// Factor scales the spot prices by the time that is left, for markets with a daily rhythm: Factor[t] for the step
	// that begins with t steps to the deadline. Nil is 1 throughout.
	Factor []float32
}

// ErrModel is returned for a model that is none.
var ErrModel = errors.New("bad bidding model")

// Levels is L, the number of states.
func (m *Model) Levels() int { return len(m.USD) }

func (m *Model) check(steps int) error {
	n := len(m.USD)
	switch {
	case n == 0 || n > 1<<12:
		return fmt.Errorf("%w: %d states", ErrModel, n)
	case len(m.P) != n*n:
		return fmt.Errorf("%w: %d probabilities for %d states", ErrModel, len(m.P), n)
	case !(m.OnDemandUSD > 0) || math.IsInf(m.OnDemandUSD, 0):
		return fmt.Errorf("%w: on-demand price %v", ErrModel, m.OnDemandUSD)
	case !(m.Restart >= 0 && m.Restart <= 1<<10):
		return fmt.Errorf("%w: a restart of %v steps", ErrModel, m.Restart)
	case !(m.ReleaseUSD >= 0) || math.IsInf(m.ReleaseUSD, 0):
		return fmt.Errorf("%w: release cost %v", ErrModel, m.ReleaseUSD)
	case m.Factor != nil && len(m.Factor) <= steps:
		return fmt.Errorf("%w: factors for %d steps of %d", ErrModel, len(m.Factor), steps+1)
	}
	for s := range n {
		if !(m.USD[s] > 0) {
			return fmt.Errorf("%w: state %d costs %v", ErrModel, s, m.USD[s])
		}
		sum := 0.0
		for _, p := range m.P[s*n : (s+1)*n] {
			if !(p >= 0) {
				return fmt.Errorf("%w: probability %v in row %d", ErrModel, p, s)
			}
			sum += float64(p)
		}
		if math.Abs(sum-1) > 1e-3 {
			return fmt.Errorf("%w: row %d sums to %v", ErrModel, s, sum)
		}
	}
	return nil
}

func (m *Model) fresh(q int) bool { return m.Fresh != nil && m.Fresh[q] }

// spotUSD is the price of a step in state q with t steps left; on-demand capacity is bought instead where it is
// cheaper, so that no price counts for more.
func (m *Model) spotUSD(q, t int) float32 {
	usd := m.USD[q]
	if m.Factor != nil {
		usd *= m.Factor[t]
	}
	return usd
}
