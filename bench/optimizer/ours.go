package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/processor"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// timing is the time of one run, in seconds.
type timing struct {
	wall, cpu float64
}

// answer is the result of one solver on one model.
type answer struct {
	timing
	proven    bool
	objective float64
	gap       float64 // of ours, relative, if not proven
	why       string  // why there is no result
}

// measure repeats f for at least the given time and returns the mean of a run, including garbage collection.
func measure(atLeast time.Duration, f func() error) (timing, error) {
	if err := f(); err != nil { // warms up
		return timing{}, err
	}
	begin, used, n := time.Now(), processor.Time(), 0
	for n == 0 || time.Since(begin) < atLeast && n < 10_000 {
		if err := f(); err != nil {
			return timing{}, err
		}
		n++
	}
	return timing{time.Since(begin).Seconds() / float64(n), (processor.Time() - used).Seconds() / float64(n)}, nil
}

// solve runs our optimizer on a checked and prepared model; the peers' time starts at the same point. It includes
// folding and everything after it. The search has the limit of `tradewind plan`, in steps, which do not depend on
// other work on the machine.
func solve(ctx context.Context, m *optimizer.Model) (answer, *optimizer.Solution, error) {
	var s *optimizer.Solution
	ready, err := optimizer.Prepare(m)
	if err != nil {
		return answer{}, nil, err
	}
	t, err := measure(100*time.Millisecond, func() error {
		var err error
		s, err = ready.Solve(ctx, optimizer.Options{WorkLimit: planner.WorkLimit(len(m.Tasks))})
		return err
	})
	if err != nil {
		return answer{}, nil, err
	}
	if s.Status == optimizer.Infeasible {
		return answer{}, s, fmt.Errorf("infeasible: %s", s.Message)
	}
	a := answer{timing: t, proven: s.Status == optimizer.Optimal, objective: s.Objective}
	if s.Objective > 0 {
		a.gap = (s.Objective - s.Bound) / s.Objective
	}
	return a, s, nil
}

// priced computes the objective of a peer's plan directly from the model's definition (equations 1 to 3), and whether
// it keeps the limits to a millionth.
func priced(m *optimizer.Model, picks []int) (objective float64, keeps bool) {
	number := make(map[string]int, len(m.Tasks))
	usd := 0.0
	for t := range m.Tasks {
		number[m.Tasks[t].ID] = t
		usd += m.Tasks[t].Candidates[picks[t]].USD
	}
	at := func(t int) int { return m.Tasks[t].Candidates[picks[t]].Place }
	incoming := make([][]optimizer.Edge, len(m.Tasks))
	for _, e := range m.Edges {
		incoming[number[e.To]] = append(incoming[number[e.To]], e)
		usd += e.GiB * m.USDPerGiB[at(number[e.From])][at(number[e.To])]
	}
	finish := make([]float64, len(m.Tasks))
	var done func(t int) float64
	done = func(t int) float64 {
		if finish[t] == 0 {
			start := 0.0
			for _, e := range incoming[t] {
				u := number[e.From]
				start = max(start, done(u)+e.GiB*m.HoursPerGiB[at(u)][at(t)])
			}
			finish[t] = start + m.Tasks[t].Candidates[picks[t]].Hours
		}
		return finish[t]
	}
	hours := 0.0
	for t := range m.Tasks {
		hours = max(hours, done(t))
	}
	keeps = (m.DeadlineHours == nil || hours <= *m.DeadlineHours*(1+1e-6)) &&
		(m.BudgetUSD == nil || usd <= *m.BudgetUSD*(1+1e-6))
	if m.Objective == optimizer.Makespan {
		return hours, keeps
	}
	return usd, keeps
}
