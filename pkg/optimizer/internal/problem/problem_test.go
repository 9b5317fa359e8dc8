package problem_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

// drawn returns a problem and a random plan.
func drawn(seed int) (inst *problem.Instance, p problem.Plan) {
	r := tiny.Rand(seed)
	inst = tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(7), Places: 1 + r.IntN(4), PerPlace: 1 + r.IntN(3), Edges: min(0.9, 1.5*r.Float64()),
		Rare: 0.5 * r.Float64(), Apart: float64(3 * r.IntN(2)),
	})
	for t := range inst.NTask() {
		p = append(p, int32(r.IntN(len(inst.Options(int32(t))))))
	}
	return inst, p
}

// The cost of a plan must equal the sum of its parts, and its makespan the length of the longest path.
func TestCostAndMakespan(t *testing.T) {
	for seed := range 300 {
		inst, p := drawn(seed)
		usd, hours := tiny.Evaluate(inst, p)
		if inst.Cost(p) != usd || inst.Makespan(p) != hours {
			t.Fatalf("seed %d: %v USD in %v h, not %v in %v", seed, inst.Cost(p), inst.Makespan(p), usd, hours)
		}
		parts := 0.0
		for task := range p {
			parts += inst.CostOf(p, []int32{int32(task)})
			local(t, inst, p, int32(task), usd)
		}
		if parts != usd {
			t.Fatalf("seed %d: the parts cost %v, all %v", seed, parts, usd)
		}
		picks := inst.Picks(p)
		for task, i := range inst.Order {
			o := inst.Options(int32(task))[p[task]]
			if picks[i] != int(o.Cand) || inst.PlaceOf(p, int32(task)) != int(o.Place) {
				t.Fatalf("seed %d: task %d is at %+v, and %d is picked", seed, task, o, picks[i])
			}
		}
		own, moved := make([]float64, len(p)), make([]float64, len(inst.Edges))
		for task := range p {
			own[task] = inst.Options(int32(task))[p[task]].Hours
		}
		for e := range moved {
			moved[e] = inst.TransferHours(p, int32(e))
		}
		path, length := inst.LongestPath(own, moved)
		whole(t, inst, &path)
		if length != hours || inst.LengthOf(p, &path) != hours {
			t.Fatalf("seed %d: path %v takes %v and %v, the plan %v",
				seed, path, length, inst.LengthOf(p, &path), hours)
		}
	}
}

// local checks that LocalCosts returns the cost differences of moving one task.
func local(t *testing.T, inst *problem.Instance, p problem.Plan, task int32, usd float64) {
	t.Helper()
	costs := make([]float64, len(inst.Options(task)))
	inst.LocalCosts(costs, p, task)
	for k := range costs {
		q := slices.Clone(p)
		q[task] = int32(k)
		if moved, _ := tiny.Evaluate(inst, q); moved-usd != costs[k]-costs[p[task]] {
			t.Fatalf("task %d moved costs %v more, the plan %v", task, costs[k]-costs[p[task]], moved-usd)
		}
	}
}

// whole checks that a path follows edges, from a task without producers to one without consumers.
func whole(t *testing.T, inst *problem.Instance, path *problem.Path) {
	t.Helper()
	last, first := path.Tasks[0], path.Tasks[len(path.Tasks)-1]
	if len(inst.Out.Of(last)) > 0 || len(inst.In.Of(first)) > 0 || len(path.Edges) != len(path.Tasks)-1 {
		t.Fatalf("path %+v is not complete", path)
	}
	for i, e := range path.Edges {
		if l := inst.Edges[e]; l.To != path.Tasks[i] || l.From != path.Tasks[i+1] {
			t.Fatalf("path %+v does not follow its edges", path)
		}
	}
}

// Even if nothing takes time, the longest path must be complete.
func TestLongestPathIsCompleteWithZeroTimes(t *testing.T) {
	for seed := range 100 {
		inst, p := drawn(seed)
		path, length := inst.LongestPath(make([]float64, len(p)), make([]float64, len(inst.Edges)))
		if whole(t, inst, &path); length != 0 {
			t.Fatalf("seed %d: nothing takes %v", seed, length)
		}
	}
}

// The groups of a task must contain its options in order, and each group must have one place.
func TestGroupByPlace(t *testing.T) {
	for seed := range 100 {
		inst, _ := drawn(seed)
		for task := range int32(inst.NTask()) {
			next := inst.First[task]
			for i, sp := range inst.SpansOf(task) {
				if sp.Lo != next || sp.Hi <= sp.Lo || i > 0 && sp.Place == inst.SpansOf(task)[i-1].Place {
					t.Fatalf("seed %d: groups %v of task %d", seed, inst.SpansOf(task), task)
				}
				for _, o := range inst.Opts[sp.Lo:sp.Hi] {
					if o.Place != sp.Place {
						t.Fatalf("seed %d: an option at %d in the group of %d", seed, o.Place, sp.Place)
					}
				}
				next = sp.Hi
			}
			if next != inst.First[task+1] {
				t.Fatalf("seed %d: options of task %d are in no group", seed, task)
			}
		}
	}
}

// A merged link must carry the sum of the data, and take as long as the longest link. The sum must not depend on the
// order of the links.
func TestMergeParallel(t *testing.T) {
	links := func(of ...[3]float64) []problem.Link {
		var list []problem.Link
		for _, l := range of {
			list = append(list, problem.Link{From: int32(l[0]), To: int32(l[1]), SumGiB: l[2], MaxGiB: l[2]})
		}
		return list
	}
	want := []problem.Link{
		{From: 0, To: 1, SumGiB: 4, MaxGiB: 4}, {From: 0, To: 2, SumGiB: 3, MaxGiB: 2},
		{From: 1, To: 2, SumGiB: 5, MaxGiB: 5},
		{From: 3, To: 0, SumGiB: 0, MaxGiB: 0}, {From: 3, To: 2, SumGiB: 6, MaxGiB: 3},
	}
	list := links([3]float64{3, 2, 3}, [3]float64{1, 2, 5}, [3]float64{0, 2, 2}, [3]float64{3, 0, 0},
		[3]float64{0, 1, 4}, [3]float64{3, 2, 2}, [3]float64{0, 2, 1}, [3]float64{3, 2, 1})
	tenths := links([3]float64{0, 1, 0.1}, [3]float64{0, 1, 0.3}, [3]float64{0, 1, 0.2}, [3]float64{0, 1, 0.7})
	sum := problem.MergeParallel(slices.Clone(tenths))[0].SumGiB
	r := tiny.Rand(1)
	for range 100 {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if got := problem.MergeParallel(slices.Clone(list)); !slices.Equal(got, want) {
			t.Fatalf("%v of %v", got, list)
		}
		r.Shuffle(len(tenths), func(i, j int) { tenths[i], tenths[j] = tenths[j], tenths[i] })
		if got := problem.MergeParallel(slices.Clone(tenths)); got[0].SumGiB != sum || got[0].MaxGiB != 0.7 {
			t.Fatalf("%v of %v", got, tenths)
		}
	}
}

// Tasks without an order between them must keep their order. Tasks of a cycle must be missing from the result.
func TestTopological(t *testing.T) {
	for seed := range 100 {
		inst, p := drawn(seed)
		at := make([]int, len(p))
		for i, task := range inst.Topo {
			at[task] = i
		}
		if len(inst.Topo) != len(p) {
			t.Fatalf("seed %d: %v of %d tasks", seed, inst.Topo, len(p))
		}
		var in, out int
		for task := range int32(len(p)) {
			in, out = in+len(inst.In.Of(task)), out+len(inst.Out.Of(task))
			for _, e := range inst.In.Of(task) {
				if l := inst.Edges[e]; l.To != task || at[l.From] >= at[task] {
					t.Fatalf("seed %d: %v does not come before %d", seed, l, task)
				}
			}
			for _, e := range inst.Out.Of(task) {
				if l := inst.Edges[e]; l.From != task {
					t.Fatalf("seed %d: %v does not begin at %d", seed, l, task)
				}
			}
		}
		if in != len(inst.Edges) || out != len(inst.Edges) {
			t.Fatalf("seed %d: %d ends and %d starts of %d edges", seed, in, out, len(inst.Edges))
		}
	}
	edges := []problem.Link{{From: 0, To: 3}, {From: 1, To: 2}, {From: 2, To: 1}, {From: 2, To: 4}, {From: 3, To: 5}}
	if got := problem.Topological(7, edges); !slices.Equal(got, []int32{0, 6, 3, 5}) {
		t.Errorf("with a cycle the result is %v", got)
	}
}
