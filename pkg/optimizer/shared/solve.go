package shared

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Options configure one call of [Solve].
type Options struct {
	// TimeLimit stops the search and returns the best plan so far; zero means no limit but the number of steps, which
	// depends only on the model.
	TimeLimit time.Duration
	// Now is the clock for TimeLimit and Solution.Millis; nil is time.Now.
	Now func() time.Time
}

// Solve returns the best plan that it finds. It returns optimizer.ErrUndecided if it found no plan and did not prove
// that there is none, an *optimizer.ModelError if the model is malformed, and the error of ctx.
func Solve(ctx context.Context, m *Model, o Options) (*Solution, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	begin := o.Now()
	if err := m.Validate(); err != nil {
		return nil, err
	}
	l, err := linkTasks(m)
	if err != nil {
		return nil, err
	}
	stop := func() bool {
		return ctx.Err() != nil || o.TimeLimit > 0 && o.Now().Sub(begin) > o.TimeLimit
	}
	s := solve(m, l, stop)
	s.model = m
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.Status == "" {
		return nil, optimizer.ErrUndecided
	}
	s.Millis = float64(o.Now().Sub(begin).Microseconds()) / 1000
	return s, nil
}

func solve(m *Model, l *links, stop func() bool) *Solution {
	whole := compile(m, l, nil)
	if len(m.Tasks) == 0 {
		return &Solution{Status: optimizer.Optimal, Plan: &Plan{}}
	}
	lower, message := whole.bound()
	if message != "" {
		return &Solution{Status: optimizer.Infeasible, Message: message}
	}
	p := compile(m, l, whole.choose(undominated(m, whole.classes)))
	plan := newSearcher(p).run(stop)
	if plan == nil {
		return &Solution{}
	}
	objective, bound := plan.USD, lower.usd
	if p.makespan {
		objective, bound = plan.Hours, lower.hours
	}
	out := &Solution{Status: optimizer.Feasible, Plan: plan, Bound: min(bound, objective)}
	if objective <= bound*(1+2*slack) {
		out.Status = optimizer.Optimal
	}
	return out
}

// run finds starting schedules and improves the best of them. It returns nil if it finds none.
func (s *searcher) run(stop func() bool) *Plan {
	starts := s.starts(stop)
	if len(starts) == 0 {
		return nil
	}
	budget := max(min(4_000_000, int64(s.n)*100_000), int64(s.n)*4000)
	best := s.improve(starts[0], budget, stop)
	starts = append([]*schedule{best}, starts...)
	for _, c := range starts {
		if plan, ok := s.finish(c); ok {
			return plan
		}
	}
	return nil
}

// starts returns schedules within the limits, best first.
func (s *searcher) starts(stop func() bool) []*schedule {
	var found []*schedule
	keep := func(c *schedule) {
		if math.IsInf(c.score, 1) {
			return
		}
		d := &schedule{}
		d.copyFrom(c)
		s.justify(d)
		s.price(d)
		found = append(found, c, d)
	}
	for k := range s.kinds {
		order := s.ranks(k)
		for _, n := range counts(min(s.n, s.kinds[k].most)) {
			if stop() && len(found) > 0 {
				break
			}
			c := &schedule{}
			if !s.identical(c, order, k, n) {
				break
			}
			keep(c)
			if len(c.kinds) < n {
				break
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *schedule) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return 0
	})
	const most = 8
	return found[:min(len(found), most)]
}
