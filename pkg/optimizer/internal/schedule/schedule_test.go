package schedule_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/schedule"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func meter() *search.Meter { return search.Start(context.Background(), search.Limits{}) }

// drawn returns a problem, and a random plan with its cost and makespan.
func drawn(seed int) (inst *problem.Instance, p problem.Plan, usd, hours float64) {
	r := tiny.Rand(seed)
	inst = tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(7), Places: 1 + r.IntN(4), PerPlace: 1 + r.IntN(3), Edges: min(0.9, 1.5*r.Float64()),
		Rare: 0.5 * r.Float64(), Apart: float64(3 * r.IntN(2)),
	})
	for t := range inst.NTask() {
		p = append(p, int32(r.IntN(len(inst.Options(int32(t))))))
	}
	usd, hours = tiny.Evaluate(inst, p)
	return inst, p, usd, hours
}

// moves calls try for each plan that differs from p in the place of one task.
func moves(inst *problem.Instance, p problem.Plan, try func(task int32, usd, hours float64)) {
	for t := range p {
		for k := range inst.Options(int32(t)) {
			q := slices.Clone(p)
			q[t] = int32(k)
			usd, hours := tiny.Evaluate(inst, q)
			try(int32(t), usd, hours)
		}
	}
}

// A task must start when all its inputs have arrived. For a task on the longest path, its time and the time after it
// must add up to the makespan.
func TestScheduleTimes(t *testing.T) {
	for seed := range 300 {
		inst, p, _, hours := drawn(seed)
		s := schedule.New(inst, p)
		if s.Makespan() != hours {
			t.Fatalf("seed %d: it takes %v hours, not %v", seed, s.Makespan(), hours)
		}
		longest := 0.0
		for task := range p {
			own := inst.Options(int32(task))[p[task]].Hours
			through := s.Start[task] + own + s.After[task]
			if through > hours {
				t.Fatalf("seed %d: through task %d it takes %v hours of %v", seed, task, through, hours)
			}
			longest = max(longest, through)
			// If the task took ten more days, the longest path through it would determine the plan's end.
			o := &inst.Opts[inst.First[task]+p[task]]
			o.Hours += 240
			if _, late := tiny.Evaluate(inst, p); late != through+240 {
				t.Fatalf("seed %d: through task %d it takes %v hours, not %v", seed, task, through, late-240)
			}
			o.Hours -= 240
			// At another place, the rest would take the time that AfterAt returns.
			for _, alt := range inst.Options(int32(task)) {
				moved := slices.Clone(p)
				moved[task] = int32(slices.Index(inst.Options(int32(task)), alt))
				if after := schedule.New(inst, moved).After[task]; s.AfterAt(int32(task), int(alt.Place)) != after {
					t.Fatalf("seed %d: after task %d at %d it takes %v hours", seed, task, alt.Place, after)
				}
			}
		}
		if longest != hours {
			t.Fatalf("seed %d: no path takes %v hours", seed, hours)
		}
	}
}

// After Shorten, no move of a single task may shorten the plan further.
func TestShorten(t *testing.T) {
	m, shorter := meter(), 0
	for seed := range 300 {
		inst, p, _, hours := drawn(seed)
		s := schedule.New(inst, slices.Clone(p))
		s.Shorten(m)
		_, now := tiny.Evaluate(inst, s.Plan)
		if now > hours || s.Makespan() != now {
			t.Fatalf("seed %d: %v hours become %v, but Makespan returns %v", seed, hours, now, s.Makespan())
		}
		if now < hours {
			shorter++
		}
		moves(inst, s.Plan, func(task int32, _, hours float64) {
			if hours < now {
				t.Fatalf("seed %d: the result is %v hours, but with task %d moved it is %v", seed, now, task, hours)
			}
		})
		if now == hours && slices.Equal(p, s.Plan) {
			continue
		}
		again := schedule.New(inst, slices.Clone(s.Plan))
		if again.Shorten(meter()); again.Makespan() != now {
			t.Fatalf("seed %d: it stops at %v hours, but a second call reaches %v", seed, now, again.Makespan())
		}
	}
	if shorter < 200 || !tiny.StepsNear(m.Work, 49_450, 1e-3) {
		t.Errorf("%d plans are shortened in %d steps", shorter, m.Work)
	}
}

// After Cheapen, no move of a single task may be cheaper and within the limit. A plan beyond the limit must come
// within it if possible, or else closer to it.
func TestCheapen(t *testing.T) {
	m, cheaper, late, within := meter(), 0, 0, 0
	for seed := range 300 {
		inst, p, usd, hours := drawn(seed)
		for _, limit := range []float64{0, hours / 2, hours - 1, hours, 1.3 * hours, 1e6} {
			s := schedule.New(inst, slices.Clone(p))
			s.Cheapen(max(0, limit), m)
			less, now := tiny.Evaluate(inst, s.Plan)
			exact := schedule.New(inst, s.Plan)
			if !slices.Equal(s.Start, exact.Start) || !slices.Equal(s.After, exact.After) {
				t.Fatalf("seed %d: the times are not those of the plan", seed)
			}
			if hours <= limit && (now > limit || less > usd) || now > max(hours, limit) {
				t.Fatalf("seed %d, within %v: %v USD in %v h become %v USD in %v h", seed, limit, usd, hours, less, now)
			}
			if hours <= limit && less < usd {
				cheaper++
			}
			if hours > limit {
				late++
			}
			if hours > limit && now <= limit {
				within++
			}
			moves(inst, s.Plan, func(task int32, usd, hours float64) {
				if now <= limit && hours <= limit && usd < less || now > limit && hours <= limit {
					t.Fatalf("seed %d, within %v: %v USD in %v h, but with task %d moved it is %v USD in %v h",
						seed, limit, less, now, task, usd, hours)
				}
			})
		}
	}
	if cheaper < 300 || within < 200 || !tiny.StepsNear(m.Work, 305_150, 1e-3) {
		t.Errorf("%d plans are made cheaper, %d of %d in time, in %d steps", cheaper, within, late, m.Work)
	}
}

// A gain of only a rounding error must not move a task.
func TestTiesDoNotMoveTasks(t *testing.T) {
	for seed := range 100 {
		inst, p, _, _ := drawn(seed)
		for o := range inst.Opts {
			inst.Opts[o].Hours, inst.Opts[o].USD = 1, 300000.3+float64(o%3)*1e-9
		}
		clear(inst.Hrs)
		clear(inst.USD)
		clear(inst.USDT)
		s := schedule.New(inst, slices.Clone(p))
		s.Shorten(meter())
		s.Cheapen(1e6, meter())
		s.Cheapen(0, meter())
		if !slices.Equal(s.Plan, p) {
			t.Fatalf("seed %d: %v becomes %v, which is no better", seed, p, s.Plan)
		}
	}
}
