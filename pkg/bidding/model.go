package bidding

import (
	"errors"
	"fmt"
	"math"
)

// Model is a spot market: a Markov chain over L states with steps of fixed length. It is the input to the recursion of
// the WCSSI paper (equations 3 to 8). Costs are USD per step; work and time are counted in steps.
//
// In a market with bids the states are price levels. In a market without bids they record whether a machine is
// available, and since when. The recursion treats both alike: a state has a price, or no machine.
type Model struct {
	// USD is the price of a step in each state, +Inf if no machine is available. Its length is L.
	USD []float32
	// P is the L×L transition matrix by rows: P[s·L+q] is the probability that state q follows state s (WCSSI,
	// equation 4).
	P []float32
	// OnDemandUSD is the price of a step on demand. On-demand machines are always available.
	OnDemandUSD float64
	// Restart is the time that every start of a machine takes before work continues, in steps; it is paid. If it is
	// 0, it does not matter what a task ran on before, and the tables do not distinguish it.
	Restart float64
	// Fresh marks the states that are entered when a spot machine is lost but another is available at once, for
	// example in another zone. Continuing in such a state is a start. Nil means no state.
	Fresh []bool
	// ReleaseUSD is the additional cost of a step without progress: r in equation 7.
	ReleaseUSD float64
	// Fallback means that a step can still run on demand after its spot price turns out too high. Then no whole step
	// is ever lost, and a bid makes sense even without slack. This is true if the price of a step is known when it
	// begins (WCSSI, assumption 3). The paper does not use it: at c = t everything runs on demand. With a Restart,
	// the caller must keep enough time for an on-demand start.
	Fallback bool
	// Factor scales the spot prices by the time left, for markets with a daily rhythm: Factor[t] applies to the step
	// that begins t steps before the deadline. Nil means 1 throughout.
	Factor []float32
}

// ErrModel is returned for an invalid model.
var ErrModel = errors.New("bad bidding model")

// Levels returns L, the number of states.
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

// spotUSD returns the spot price of a step in state q with t steps left. It is not capped: callers buy on-demand
// capacity if that is cheaper.
func (m *Model) spotUSD(q, t int) float32 {
	usd := m.USD[q]
	if m.Factor != nil {
		usd *= m.Factor[t]
	}
	return usd
}
