package pricing_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/pricing"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

func meter() *search.Meter { return search.Start(context.Background(), search.Limits{}) }

// plan is a plan of a problem, with its cost and time.
type plan struct {
	picks      problem.Plan
	usd, hours float64
}

// drawn returns a problem, all its plans, the cheapest plan and the fastest plan. For odd seeds its graph is a chain,
// with one path through all tasks.
func drawn(seed int) (inst *problem.Instance, plans []plan, cheap, fast plan) {
	r := tiny.Rand(seed)
	inst = tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(5), Places: 1 + r.IntN(3), PerPlace: 1 + r.IntN(3), Edges: min(0.9, 1.5*r.Float64()),
		Rare: 0.5 * r.Float64(), Apart: float64(3 * r.IntN(2)),
	})
	if seed%2 == 1 {
		inst.Edges = nil
		for i := 1; i < len(inst.Topo); i++ {
			l := problem.Link{From: inst.Topo[i-1], To: inst.Topo[i], SumGiB: float64(1 + r.IntN(4)), MaxGiB: 2}
			inst.Edges = append(inst.Edges, l)
		}
		inst.Edges = problem.MergeParallel(inst.Edges)
		inst.In = problem.Adjacent(len(inst.Topo), inst.Edges, func(e *problem.Link) int32 { return e.To })
		inst.Out = problem.Adjacent(len(inst.Topo), inst.Edges, func(e *problem.Link) int32 { return e.From })
	}
	tiny.Each(inst, nil, func(p problem.Plan, usd, hours float64) {
		plans = append(plans, plan{slices.Clone(p), usd, hours})
	})
	cheap = slices.MinFunc(plans, func(a, b plan) int { return int(2*(a.usd-b.usd)) + sign(a.hours-b.hours) })
	fast = slices.MinFunc(plans, func(a, b plan) int { return int(2*(a.hours-b.hours)) + sign(a.usd-b.usd) })
	return inst, plans, cheap, fast
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// thresholds returns thresholds that force each pricer, and a lagrangian with all places or only the remaining ones.
func thresholds() []search.Thresholds {
	master, spreader, dense := search.DefaultThresholds(), search.DefaultThresholds(), search.DefaultThresholds()
	spreader.ManyTasks, dense.TableEntries = 0, -1
	both := spreader
	both.TableEntries = -1
	return []search.Thresholds{master, spreader, dense, both}
}

// holds checks that the value is at most the priced cost of every plan in the box, also after an option's excess is
// added. The suggested plan must be in the box.
func holds(t *testing.T, inst *problem.Instance, l *pricing.Lagrangian, b *windows.Box, plans []plan, value float64) {
	t.Helper()
	least := search.Inf
	for _, p := range plans {
		if !b.Holds(p.picks) {
			continue
		}
		priced := p.usd + l.Lambda*p.hours
		least = min(least, priced)
		if value > priced+1e-7 {
			t.Fatalf("plan %v of %v USD in %v h is below %v at %v USD an hour",
				p.picks, p.usd, p.hours, value, l.Lambda)
		}
		for task, k := range p.picks {
			if x := l.Excess(int32(task), inst.First[task]+k); x < -1e-9 || value+x > priced+1e-7 {
				t.Fatalf("plan %v of %v is below %v, and %v more for task %d", p.picks, priced, value, x, task)
			}
		}
	}
	if p := l.Round(); !b.Holds(p) {
		t.Fatalf("plan %v is not in the box", p)
	}
	priced := l.Flow.Task[inst.Topo[0]] > 1-1e-9
	if priced && len(inst.Edges) == inst.NTask()-1 && chain(inst) && math.Abs(value-least) > 1e-7 {
		t.Fatalf("at %v USD an hour a chain costs %v, not %v", l.Lambda, least, value)
	}
}

func chain(inst *problem.Instance) bool {
	for t := range int32(inst.NTask()) {
		if len(inst.In.Of(t)) > 1 || len(inst.Out.Of(t)) > 1 {
			return false
		}
	}
	return true
}

// Prices and plans are updated in turns, while options are excluded. The bound on the cost within a deadline must
// rise to the cost of the best mixture of plans, which is known for a chain.
func TestPricesBoundAllPlans(t *testing.T) {
	steps := make([]int64, len(thresholds()))
	sums, reached := make([]float64, len(steps)), 0
	for seed := range 120 {
		inst, plans, cheap, fast := drawn(seed)
		r := tiny.Rand(seed)
		deadline := fast.hours + r.Float64()*(cheap.hours-fast.hours) + 1e-3
		dear := fast.usd + 1
		for i, th := range thresholds() {
			m := meter()
			l, pr := pricing.NewLagrangian(inst, th), pricing.NewPricer(inst, cheap.picks, fast.picks, th)
			b := windows.NewBox(inst)
			best, value := math.Inf(-1), 0.0
			for part := range 3 {
				if part > 0 {
					b = smaller(b, r.IntN(1000), fast.picks)
				}
				if part == 2 && i%2 == 0 {
					l.Enter(windows.NewBox(inst)) // excluded options are back
					l.Evaluate(windows.NewBox(inst), m)
				}
				l.Enter(b)
				pr.Begin(b, deadline, dear)
				best = math.Inf(-1)
				for range 25 {
					pr.Inform(l)
					value = l.Evaluate(b, m)
					holds(t, inst, l, b, plans, value)
					if within := value - l.Lambda*deadline; within > best {
						best = within
						pr.Remember()
					}
					pr.Answer(b, l.Round(), deadline, dear)
				}
				average(t, inst, pr.Average())
				if pr.Reach() < best-1e-6 {
					t.Fatalf("seed %d, pricer %d: the bound %v exceeds its maximum %v", seed, i, best, pr.Reach())
				}
				mix := mixture(b, plans, deadline)
				if far := mix - 0.02*math.Abs(mix) - 0.05; seed%2 == 1 && (best > mix+1e-6 || i%2 == 0 && best < far) {
					t.Fatalf("seed %d, pricer %d: the bound is %v, but a mixture in time costs %v", seed, i, best, mix)
				} else if best > mix-1e-6 {
					reached++
				}
				sums[i] += best
			}
			pr.Recall()
			pr.Inform(l)
			if again := l.Evaluate(b, m) - l.Lambda*deadline; math.Abs(again-best) > 0.02*math.Abs(best)+0.3 {
				t.Fatalf("seed %d, pricer %d: the best prices give %v, and again %v", seed, i, best, again)
			}
			steps[i] += m.Work
		}
	}
	for i, want := range []float64{11_914, 11_880, 11_946, 11_878} {
		if math.Abs(sums[i]-want) > 2 {
			t.Errorf("pricer %d: bounds of %v in all, not %v", i, sums[i], want)
		}
	}
	for i, want := range []int64{128_009, 124_923, 201_439, 199_496} {
		if !tiny.StepsNear(steps[i], want, 1e-3) {
			t.Errorf("pricer %d: %d steps, not about %d", i, steps[i], want)
		}
	}
	if reached < 690 {
		t.Errorf("only %d bounds reach their maximum", reached)
	}
}

// No plan is in time. Bounds must be valid, and averages must be those of the existing plans.
func TestPricesWithoutPlanInTime(t *testing.T) {
	for seed := range 40 {
		inst, plans, cheap, fast := drawn(seed)
		if fast.hours == 0 {
			continue
		}
		for _, th := range thresholds() {
			l, b := pricing.NewLagrangian(inst, th), windows.NewBox(inst)
			pr := pricing.NewPricer(inst, cheap.picks, fast.picks, th)
			l.Enter(b)
			pr.Begin(b, 0.6*fast.hours, fast.usd+1)
			for range 10 {
				pr.Inform(l)
				holds(t, inst, l, b, plans, l.Evaluate(b, meter()))
				pr.Answer(b, l.Round(), 0.6*fast.hours, fast.usd+1)
				average(t, inst, pr.Average())
			}
		}
	}
}

// After the pool of 128 has dropped the first plans and paths, prices must stay valid.
func TestPoolsDropOldEntries(t *testing.T) {
	r := tiny.Rand(1)
	inst := tiny.Draw(r, tiny.Shape{Tasks: 14, Places: 3, PerPlace: 2, Apart: 1})
	for i := range int32(12) {
		inst.Edges = append(inst.Edges, problem.Link{From: i, To: i/2*2 + 2, SumGiB: 1, MaxGiB: 1},
			problem.Link{From: i, To: i/2*2 + 3, SumGiB: 1, MaxGiB: 2})
	}
	inst.Topo = problem.Topological(14, inst.Edges)
	inst.In = problem.Adjacent(14, inst.Edges, func(e *problem.Link) int32 { return e.To })
	inst.Out = problem.Adjacent(14, inst.Edges, func(e *problem.Link) int32 { return e.From })
	var plans []plan
	for range 400 {
		p := plan{picks: make(problem.Plan, 14)}
		for task := range p.picks {
			p.picks[task] = int32(r.IntN(len(inst.Options(int32(task)))))
		}
		p.usd, p.hours = tiny.Evaluate(inst, p.picks)
		plans = append(plans, p)
	}
	th := search.DefaultThresholds()
	l, b := pricing.NewLagrangian(inst, th), windows.NewBox(inst)
	pr := pricing.NewPricer(inst, plans[0].picks, plans[1].picks, th)
	deadline, best := 0.7*plans[0].hours, math.Inf(-1)
	l.Enter(b)
	pr.Begin(b, deadline, 1000)
	for i := range 600 {
		if i < len(plans) {
			pr.Answer(b, plans[i].picks, deadline, 1000)
		} else {
			pr.Answer(b, l.Round(), deadline, 1000)
		}
		pr.Inform(l)
		value := l.Evaluate(b, meter())
		holds(t, inst, l, b, plans, value)
		if within := value - l.Lambda*deadline; within > best {
			best = within
			pr.Remember()
		}
	}
	if pr.Reach() < best-1e-6 || best < 116.2 || best > 116.3 {
		t.Errorf("the bound is %v, and can be %v", best, pr.Reach())
	}
}

// The two extreme plans do not determine a price of time. Time must have one nevertheless. With many tasks, the
// spreader is the pricer.
func TestSpreaderStart(t *testing.T) {
	inst, _, cheap, _ := drawn(2)
	th := search.DefaultThresholds()
	for _, tasks := range []int{inst.NTask(), inst.NTask() + 1} {
		th.ManyTasks = tasks
		_, ok := pricing.NewPricer(inst, cheap.picks, cheap.picks, th).(*pricing.Spreader)
		if ok != (tasks == inst.NTask()) {
			t.Errorf("with %d tasks and a threshold of %d: %v", inst.NTask(), tasks, ok)
		}
	}
	one := tiny.Draw(tiny.Rand(1), tiny.Shape{Tasks: 1, Places: 1, PerPlace: 1})
	one.Opts = []problem.Option{{USD: 5, Hours: 9}, {USD: 5, Hours: 3}, {USD: 7, Hours: 9}, {USD: 45, Hours: 7}}
	one.First = []int32{0, 4}
	one.GroupByPlace()
	th.ManyTasks = 0
	for _, c := range []struct {
		cheap, fast int32
		lambda      float64
	}{{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {2, 1, 1}, {0, 3, 2}} {
		l := pricing.NewLagrangian(one, th)
		pricing.NewPricer(one, problem.Plan{c.cheap}, problem.Plan{c.fast}, th).Inform(l)
		if l.Lambda != c.lambda || l.Flow.Task[0] != 1 {
			t.Errorf("from %d and %d an hour costs %v USD, on %v of the path",
				c.cheap, c.fast, l.Lambda, l.Flow.Task[0])
		}
	}
}

// The price of time must rise while the last plan is late, and fall once a plan is in time.
func TestUrgentPricesFollowLongestPath(t *testing.T) {
	th := search.DefaultThresholds()
	th.ManyTasks = 0
	for seed := range 40 {
		inst, plans, cheap, fast := drawn(seed)
		for _, p := range plans[:min(20, len(plans))] {
			for _, deadline := range []float64{p.hours/2 + 0.1, p.hours + 3} {
				sp := pricing.NewPricer(inst, cheap.picks, fast.picks, th).(*pricing.Spreader)
				l, b := pricing.NewLagrangian(inst, th), windows.NewBox(inst)
				sp.Urgent = true
				sp.Inform(l)
				before := l.Lambda
				sp.Answer(b, p.picks, deadline, fast.usd+1)
				sp.Inform(l)
				if before > 0 && p.hours != deadline && (l.Lambda > before) != (p.hours > deadline) {
					t.Fatalf("seed %d: %v hours of %v change the price from %v to %v",
						seed, p.hours, deadline, before, l.Lambda)
				}
			}
		}
	}
}

// A network with more entries than the threshold must be dense. A smaller one has only the places of options.
func TestLargeNetworkIsDense(t *testing.T) {
	inst := tiny.Draw(tiny.Rand(3), tiny.Shape{Tasks: 5, Places: 4, PerPlace: 1, Edges: 0.7, Rare: 0.5})
	entries := 0
	for _, e := range inst.Edges {
		for range inst.Options(e.From) {
			entries += len(inst.Options(e.To))
		}
	}
	for _, most := range []int{entries, entries - 1} {
		th := search.DefaultThresholds()
		th.TableEntries = most
		l := pricing.NewLagrangian(inst, th)
		l.Enter(windows.NewBox(inst))
		all := true
		for i := range l.Net.Nodes {
			all = all && len(l.Net.Nodes[i].Values) == inst.NPlace
		}
		if all != (most < entries) {
			t.Errorf("of %d entries %d may be stored, and all places exist: %v", entries, most, all)
		}
	}
}

// A stopped evaluation must return no bound.
func TestStoppedEvaluationReturnsNoBound(t *testing.T) {
	inst, _, _, _ := drawn(4)
	l, b, m := pricing.NewLagrangian(inst, search.DefaultThresholds()), windows.NewBox(inst), meter()
	l.Enter(b)
	m.Stopped = true
	if value := l.Evaluate(b, m); !math.IsInf(value, -1) {
		t.Errorf("the value is %v", value)
	}
}

// average checks that the mean time of a task is between those of its fastest and its slowest option.
func average(t *testing.T, inst *problem.Instance, hours []float64) {
	t.Helper()
	for task, h := range hours {
		var of []float64
		for _, o := range inst.Options(int32(task)) {
			of = append(of, o.Hours)
		}
		if h < slices.Min(of)-1e-9 || h > slices.Max(of)+1e-9 {
			t.Fatalf("task %d takes %v on average of %v", task, h, of)
		}
	}
}

// mixture returns the minimum cost of a mixture of two plans in the box that meets the deadline on average.
func mixture(b *windows.Box, plans []plan, deadline float64) float64 {
	least := search.Inf
	for _, p := range plans {
		if !b.Holds(p.picks) || p.hours > deadline {
			continue
		}
		least = min(least, p.usd)
		for _, q := range plans {
			if q.hours > deadline && b.Holds(q.picks) {
				w := (deadline - p.hours) / (q.hours - p.hours)
				least = min(least, p.usd+w*(q.usd-p.usd))
			}
		}
	}
	return least
}

// smaller returns a box with fewer options that still contains the plan keep.
func smaller(b *windows.Box, seed int, keep problem.Plan) *windows.Box {
	b = b.Clone()
	r := tiny.Rand(seed)
	for task := range keep {
		b.Keep(int32(task), func(o int32) bool { return o == b.Inst.First[task]+keep[task] || r.IntN(4) > 0 })
	}
	var s network.Scratch
	b.Narrow(search.Inf, &s, meter())
	return b
}
