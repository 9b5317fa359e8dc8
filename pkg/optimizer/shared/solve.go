package shared

import (
	"cmp"
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
	// Effort multiplies the number of steps; zero means 1.
	Effort float64
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
	s := solve(m, l, cmp.Or(o.Effort, 1), stop)
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

func solve(m *Model, l *links, effort float64, stop func() bool) *Solution {
	whole := compile(m, l, nil)
	if len(m.Tasks) == 0 {
		return &Solution{Status: optimizer.Optimal, Plan: &Plan{}}
	}
	lower, message := whole.bound()
	if message != "" {
		return &Solution{Status: optimizer.Infeasible, Message: message, Late: whole.late(lower)}
	}
	machines, guesses := whole.choose(undominated(m, whole.classes))
	plan := newSearcher(compile(m, l, machines)).run(guesses, lower, effort, stop)
	if plan == nil {
		return &Solution{}
	}
	objective, bound := plan.USD, lower.usd
	if whole.makespan {
		objective, bound = plan.Hours, lower.hours
	}
	out := &Solution{Status: optimizer.Feasible, Plan: plan, Bound: min(bound, objective)}
	if objective <= bound*(1+2*slack) {
		out.Status = optimizer.Optimal
	}
	return out
}

// run finds starting schedules and improves the best of them. It returns nil if it finds none.
func (s *searcher) run(guesses []guess, lower limits, effort float64, stop func() bool) *Plan {
	if s.enough = lower.usd; s.makespan {
		s.enough = lower.hours
	}
	s.enough *= 1 + closeTo(s.n)
	budget := int64(effort * stepsFor(s.n))
	starts := s.starts(guesses, budget/4, stop)
	if len(starts) == 0 {
		starts = s.repaired(budget/2, stop)
	}
	if len(starts) == 0 {
		return nil
	}
	best := s.improve(starts[0], budget-s.steps, stop)
	starts = append([]*schedule{best}, starts...)
	for _, c := range starts {
		if plan, ok := s.finish(c); ok {
			return plan
		}
	}
	return nil
}

// closeTo is the distance from the bound at which a search ends, as a share of the bound.
func closeTo(n int) float64 {
	if n < 1000 {
		return 2 * slack
	}
	return 1e-4
}

// stepsFor is the number of steps for a number of tasks. A million take about 0.2 s.
func stepsFor(n int) float64 { return min(3e6, 3e5*float64(n)) + 3500*max(0, float64(n)-1000) }

// starts returns schedules on identical machines within the limits, best first.
func (s *searcher) starts(guesses []guess, steps int64, stop func() bool) []*schedule {
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
	kinds := map[int]int{}
	for k := range s.kinds {
		kinds[s.kinds[k].machine] = k
	}
	orders := map[int][]int32{}
	for _, g := range guesses {
		if len(found) > 0 && (stop() || s.steps > steps) {
			break
		}
		k := kinds[g.machine]
		if orders[k] == nil {
			orders[k] = s.ranks(k)
		}
		c := &schedule{}
		if s.identical(c, orders[k], k, g.count) {
			keep(c)
		}
		s.steps += int64(s.n)
	}
	found = append(found, s.spread()...)
	slices.SortStableFunc(found, func(a, b *schedule) int { return cmp.Compare(a.score, b.score) })
	const most = 8
	return found[:min(len(found), most)]
}

// repaired returns a schedule within the limits, if it finds one. It starts from schedules in which each task goes
// where it costs least, or ends first, and then searches for schedules that break the limits less.
func (s *searcher) repaired(steps int64, stop func() bool) []*schedule {
	s.tried, s.blink = append([]int32(nil), s.pool...), 0
	order := s.ranks(0)
	var best *schedule
	for _, relaxed := range []bool{false, true} {
		for _, fastest := range []bool{false, true} {
			s.relaxed, s.fastest = relaxed, fastest
			if c := s.greedy(order, 1); c != nil && (best == nil || c.score < best.score) {
				best = c
			}
		}
		if best != nil {
			break
		}
	}
	s.tried = nil
	if best != nil && s.relaxed {
		best = s.improve(best, steps, stop)
		s.relaxed = false
		if best.score = s.score(best.usd, best.hours); !s.within(best) {
			best = nil
		}
	}
	s.relaxed = false
	if best == nil {
		return nil
	}
	return []*schedule{best}
}

// spread builds schedules in which each task goes where it costs least, for several ways to spread the time until the
// deadline over the tasks: the time after each task is its least time by some factor, up to the factor that the longest
// path allows.
func (s *searcher) spread() []*schedule {
	if math.IsInf(s.deadline, 1) || s.makespan {
		return nil
	}
	longest, boot := 0.0, math.Inf(1)
	for t := range s.n {
		longest = max(longest, s.shortest[t]+s.tail[t])
		boot = min(boot, s.head[t])
	}
	if longest == 0 {
		return nil
	}
	most := (s.deadline - boot) / longest
	s.tried, s.blink, s.fastest = append(s.tried[:0], s.pool...), 0, false
	order := s.ranks(0)
	var found []*schedule
	for _, part := range []float64{0, 0.5, 0.8, 1} {
		if c := s.greedy(order, 1+part*max(0, most-1)); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// greedy builds a schedule from nothing, with the given factor for the time after each task. It returns nil if it
// breaks a limit, unless the limits are relaxed.
func (s *searcher) greedy(order []int32, factor float64) *schedule {
	c := &schedule{}
	c.on = resized(c.on, s.n)
	s.late, s.planned = resized(s.late, s.n), s.planned[:0]
	for t := range c.on {
		c.on[t] = unset
		s.late[t] = math.Inf(1)
		if !s.relaxed {
			s.late[t] = (s.deadline - s.tail[t]*factor) * (1 + 1e-12)
		}
	}
	if !s.recreate(c, order) {
		return nil
	}
	s.compact(c)
	s.justify(c)
	if s.price(c); math.IsInf(c.score, 1) {
		return nil
	}
	return c
}

// LowerBounds returns a cost in USD and a time in hours that no valid plan is below. They are 0 if there is no valid
// plan. It returns an *optimizer.ModelError if the model is malformed.
func LowerBounds(m *Model) (usd, hours float64, err error) {
	if err := m.Validate(); err != nil {
		return 0, 0, err
	}
	l, err := linkTasks(m)
	if err != nil {
		return 0, 0, err
	}
	lower, message := compile(m, l, nil).bound()
	if message != "" {
		return 0, 0, nil
	}
	return lower.usd, lower.hours, nil
}
