package bounded

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/leastcost"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// If a plan meets a deadline D, then its times in units of any length u, rounded down, meet the deadline ⌊D/u⌋. So
// the cheapest plan with rounded times is a lower bound, and often far better than a mixture of plans. For example,
// if a spot run takes six tenths of the deadline, two in a row cannot be in time, but a mixture runs each task on
// spot for five sixths. Roundings to one, two, … steps each exclude plans that the others allow (the rounding of
// Chvátal and Gomory; for bin packing the dual feasible functions of Lueker, 1983). With rounded times many options
// are alike, and the search is the same as for any other deadline (bounded.go).

// MaxSteps is the maximum number of steps to the deadline: the finest rounding.
const MaxSteps = 12

// rounding is a search with rounded times.
type rounding struct {
	*Search
	perHour float64           // units per hour
	fine    *problem.Instance // the instance that was rounded
}

// rounded returns the instance with rounded-down times, in a unit in which the deadline is just below steps + 1, and
// with transfers that take no time. It keeps only the options of a task that may be the cheapest for their time.
func rounded(inst *problem.Instance, deadline float64, steps int) *problem.Instance {
	r := *inst
	r.Edges = slices.Clone(inst.Edges)
	for e := range r.Edges {
		r.Edges[e].MaxGiB = 0
	}
	perHour := unitsPerHour(deadline, steps)
	dom := leastcost.NewDomination(inst)
	r.Opts = make([]problem.Option, 0, len(inst.Opts)/8)
	r.First = make([]int32, len(inst.First))
	for t := range inst.Order {
		r.Opts = append(r.Opts, roundOptions(dom, inst, int32(t), perHour, steps)...) // #nosec G115 -- at most MaxTasks
		// #nosec G115 -- at most MaxCandidates
		r.First[t+1] = int32(len(r.Opts))
	}
	r.GroupByPlace()
	return &r
}

// unitsPerHour returns how many units an hour has, so that the deadline is just below steps + 1 units: rounded down, it
// has steps units.
func unitsPerHour(deadline float64, steps int) float64 {
	return float64(steps+1) / deadline * (1 - 1e-9)
}

// roundOptions returns the options of task t that may be the cheapest for their rounded time, depending on the places
// of its neighbours. They are sorted by place, and within a place from the cheapest and slowest on.
func roundOptions(
	dom *leastcost.Domination, inst *problem.Instance, t int32, perHour float64, steps int,
) []problem.Option {
	opts := slices.Clone(inst.Options(t))
	cheapest := make([]int, steps+1) // cheapest option for each maximum time
	for h := range cheapest {
		cheapest[h] = -1
	}
	for k := range opts {
		opts[k].Hours = math.Floor(opts[k].Hours * perHour)
		for h := int(min(opts[k].Hours, float64(steps+1))); h <= steps; h++ {
			if c := cheapest[h]; c < 0 || opts[k].USD < opts[c].USD {
				cheapest[h] = k
			}
		}
	}
	sent, received := leastcost.DataMoved(inst, t)
	kept := opts[:0:0]
	for k := range opts {
		if opts[k].Hours > float64(steps) {
			continue
		}
		c := cheapest[int(opts[k].Hours)]
		if c != k {
			out, in := dom.Rows(opts[c].Place)
			if p := opts[k].Place; opts[c].USD+sent*out[p]+received*in[p] <= opts[k].USD {
				continue
			}
		}
		if n := len(kept); n > 0 && kept[n-1].Place == opts[k].Place && kept[n-1].Hours <= opts[k].Hours {
			continue
		}
		kept = append(kept, opts[k])
	}
	return kept
}

// coarse converts a plan of the fine instance to one with rounded times that costs no more. It returns nil if that is
// too slow.
func (r *rounding) coarse(p problem.Plan) problem.Plan {
	out := make(problem.Plan, len(p))
	for t := range p {
		i := int32(t) // #nosec G115 -- at most MaxTasks
		opt := &r.fine.Opts[r.fine.First[t]+p[t]]
		hours := math.Floor(opt.Hours * r.perHour)
		best := -1
		opts := r.Inst.Options(i)
		for k := range opts {
			if opts[k].Hours > hours {
				continue
			}
			if opts[k].Place == opt.Place && opts[k].USD <= opt.USD {
				best = k
				break
			}
			if best < 0 || opts[k].USD < opts[best].USD {
				best = k
			}
		}
		if best < 0 {
			return nil // too slow for the deadline
		}
		out[t] = int32(best) // #nosec G115 -- at most MaxCandidates
	}
	return out
}

// exact converts a plan of the rounded instance to one of the fine instance, which has the real times.
func (r *rounding) exact(p problem.Plan) problem.Plan {
	out := make(problem.Plan, len(p))
	for t := range p {
		i := int32(t) // #nosec G115 -- at most MaxTasks
		opt := &r.Inst.Opts[r.Inst.First[t]+p[t]]
		k := slices.IndexFunc(r.fine.Options(i), func(o problem.Option) bool { return o.Cand == opt.Cand })
		out[t] = int32(k) // #nosec G115 -- at most MaxCandidates
	}
	return out
}

// NewRounding starts a search for the cheapest plan within the deadline with rounded times. It starts from the given
// plans; fast meets the deadline. It returns nil if rounding excludes nothing.
func NewRounding(s *Search, deadline float64, steps int, fast problem.Plan, more ...problem.Plan) *rounding {
	r := &rounding{fine: s.Inst, perHour: unitsPerHour(deadline, steps)}
	r.Search = &Search{
		Inst: rounded(s.Inst, deadline, steps), Meter: s.Meter.Part(0.1), Thresholds: s.Thresholds,
		Limit: float64(steps), coarse: true, ceiling: s.ceiling, offered: s.ceiling,
	}
	c := leastcost.NewSolver(r.Inst, s.Thresholds, r.Meter)
	lax, lower, _ := c.Solve(nil)
	if r.Inst.Makespan(lax) <= float64(steps) {
		s.Meter.Join(r.Meter)
		return nil
	}
	var from []problem.Plan
	for _, p := range append(more, fast) {
		if p = r.coarse(p); p != nil {
			from = append(from, p)
		}
	}
	if len(from) == 0 {
		s.Meter.Join(r.Meter)
		return nil
	}
	r.Start(lax, from[len(from)-1], from, lower)
	s.Meter.Join(r.Meter)
	r.Meter = s.Meter
	return r
}

// round raises the bound by searches with rounded times and offers their plans. It alternates with the search itself;
// both get the same amount of work.
func (s *Search) round() {
	done := s.Meter.Work - s.begun
	if s.coarse || s.ByTime || done < s.Thresholds.RoundAfter || 2*s.roundWork > done || s.Meter.Stopped {
		return
	}
	defer func() { s.roundWork += s.Meter.Work - s.begun - done }()
	if s.steps < MaxSteps {
		s.coarsen()
	} else if len(s.roundings) > 0 {
		s.refine()
	}
	if s.Lower >= s.cut() {
		s.Lower, s.Open = s.Upper, nil
	}
}

// large reports whether the search will probably be so long that rounded times should be tried first. It is false if
// a single evaluation of the network is long already, because then the roundings would take too long as well.
func (s *Search) large() bool {
	if s.coarse {
		return false
	}
	entries := 0
	for i := range s.Inst.Edges {
		e := &s.Inst.Edges[i]
		entries += len(s.Inst.SpansOf(e.From)) * len(s.Inst.SpansOf(e.To))
	}
	return entries*rootRounds().most > int(s.Thresholds.RoundAfter) && entries < s.Thresholds.RoundEntries
}

// coarsen starts the search with the next rounding.
func (s *Search) coarsen() {
	s.steps++
	if r := NewRounding(s, s.TimeCut(), s.steps, s.Fast, s.Best); r != nil {
		s.roundings = append(s.roundings, r)
		s.learn(r)
	}
}

// refine does a step in the search with the rounding that has the best bound.
func (s *Search) refine() {
	best := slices.MaxFunc(s.roundings, func(a, b *rounding) int { return cmp.Compare(a.Lower, b.Lower) })
	more := best.step()
	best.Lower = min(best.Upper, max(best.Lower, best.Least(best.cut())))
	s.learn(best)
	if !more {
		s.roundings = slices.DeleteFunc(s.roundings, func(r *rounding) bool { return r == best })
	}
}

// learn adopts the results of a search with rounded times.
func (s *Search) learn(r *rounding) {
	s.Lower = min(s.Upper, max(s.Lower, r.Lower))
	if r.Best != nil && r.Upper != r.offered {
		r.offered = r.Upper
		s.offer(r.exact(r.Best))
	}
}
