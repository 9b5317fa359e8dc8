package planner_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared/judge"
)

// sharing is a job of tasks that share machines and take some time each.
func sharing(each ...time.Duration) *dag.Job {
	j := &dag.Job{Name: "j", Objective: dag.MinimizeCost}
	for i, d := range each {
		j.Tasks = append(j.Tasks, dag.Task{Name: fmt.Sprintf("a[%d]", i), Nodes: 1, Share: dag.ShareJob,
			Resources: []dag.Resources{{}}, Time: dag.TimeEstimate{Default: d}})
	}
	return j
}

// array is a job of n equal tasks that share machines.
func array(n int, each time.Duration) *dag.Job { return sharing(slices.Repeat([]time.Duration{each}, n)...) }

func near(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(1, math.Abs(x), math.Abs(y)) }

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkFleets checks that every dollar of a plan without moved data is counted once, and that the fleets, the workers
// and the members agree.
func checkFleets(t failer, spec *dag.Job, got *record.Plan) {
	t.Helper()
	own, shares, on := 0.0, map[int32]float64{}, map[int32]int{}
	for i := range spec.Work() {
		own += got.OwnUSD(i)
		if !got.IsShared(i) {
			continue
		}
		w := got.On[i]
		shares[w] += got.TaskUSD[i]
		on[w]++
		c := got.Of(i)
		if cpus, gib := spec.Tasks[i].Hold(); c == nil || c != got.Of(int(w)) || c.VCPU < cpus || c.MemoryGiB < gib {
			t.Fatalf("task %d is on %+v, its machine is %+v", i, c, got.Of(int(w)))
		}
	}
	unused := map[int]bool{}
	for w := spec.Work(); w < len(spec.Tasks); w++ {
		own += got.OwnUSD(w)
		group := spec.Tasks[w].Worker.Group
		used := got.Choice[w] >= 0
		switch {
		case used && (unused[group] || on[int32(w)] == 0):
			t.Fatalf("worker task %d is used, but not an earlier one, or no task is on it", w)
		case used && !near(shares[int32(w)], got.TaskUSD[w]):
			t.Fatalf("the shares of worker task %d are %v of %v USD", w, shares[int32(w)], got.TaskUSD[w])
		}
		unused[group] = unused[group] || !used
	}
	if !near(own, got.USD) {
		t.Fatalf("the tasks cost %v of %v USD", own, got.USD)
	}
	machines, tasks, usd := 0, 0, 0.0
	for _, f := range got.Fleets {
		machines, tasks, usd = machines+f.Machines, tasks+f.Tasks, usd+f.USD
		if !(f.Utilisation > 0 && f.Utilisation <= 1) || !(f.Hours > 0) {
			t.Fatalf("%+v", f)
		}
	}
	all := 0
	for _, n := range on {
		all += n
	}
	if machines != len(on) || tasks != all || usd > got.USD*(1+1e-9) {
		t.Fatalf("fleets have %d machines, %d tasks and %v USD: %v", machines, tasks, usd, got.Fleets)
	}
	if got.Bound > got.Objective*(1+1e-9) {
		t.Fatalf("bound %v, objective %v", got.Bound, got.Objective)
	}
}

func TestShortTasksShareFewMachines(t *testing.T) {
	p, _ := newPlanner(t)
	spec := array(1000, 10*time.Second)
	alone := plan(t, p, planinput.Input{Spec: spec})
	spec = spec.WithWorkers()
	got := plan(t, p, planinput.Input{Spec: spec})
	checkFleets(t, spec, got)
	if len(got.Fleets) == 0 || got.Fleets[0].Tasks < 500 || got.Fleets[0].Utilisation < 0.7 {
		t.Errorf("fleets %+v", got.Fleets)
	}
	if got.USD > alone.USD/10 || got.Hours > 1 || got.Bound < got.USD*0.7 {
		t.Errorf("%v USD and %v h, bound %v; with a machine for each task %v USD", got.USD, got.Hours, got.Bound, alone.USD)
	}
}

func TestPlansOfFleetsAreRepeatable(t *testing.T) {
	p, _ := newPlanner(t)
	deadline := 0.2
	for _, in := range []planinput.Input{
		{Spec: array(30, time.Minute).WithWorkers()},
		{Spec: array(30, time.Minute).WithWorkers(), DeadlineHours: &deadline},
	} {
		if first, second := plan(t, p, in), plan(t, p, in); !reflect.DeepEqual(first, second) {
			t.Errorf("%+v, then %+v", first, second)
		}
	}
}

func TestPlansOfFleetsAreValid(t *testing.T) {
	p, _ := newPlanner(t)
	rapid.Check(t, func(t *rapid.T) {
		var each []time.Duration
		for range rapid.IntRange(2, 8).Draw(t, "tasks") {
			each = append(each, time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds"))*time.Second)
		}
		spec := sharing(each...)
		for i := range spec.Tasks {
			spec.Tasks[i].Resources[0].CPUs.Min = float64(rapid.IntRange(0, 8).Draw(t, "cpus"))
			for k := range i {
				if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
					spec.Edges = append(spec.Edges, dag.Edge{From: k, To: i})
				}
			}
		}
		spec = spec.WithWorkers()
		if rapid.Bool().Draw(t, "fast") {
			spec.Objective = dag.MinimizeMakespan
		}
		in := planinput.Input{Spec: spec, Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
		if rapid.Bool().Draw(t, "limited") {
			deadline := rapid.Float64Range(0.1, 20).Draw(t, "deadline")
			in.DeadlineHours = &deadline
		}
		got, err := p.Plan(context.Background(), in)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if got.Status == record.PlanInfeasible || len(got.Fleets) == 0 {
			return
		}
		checkFleets(t, spec, got)
		if in.DeadlineHours != nil && got.Hours > *in.DeadlineHours {
			t.Fatalf("%v h of %v h", got.Hours, *in.DeadlineHours)
		}
		fleets, err := planner.Fleets(context.Background(), p, in)
		if err != nil {
			t.Fatalf("%v", err)
		}
		usd := 0.0
		for _, f := range fleets {
			cost, _, err := judge.Check(f.Model, f.Plan, 1e-9)
			if err != nil {
				t.Fatalf("%v", err)
			}
			usd += cost
		}
		if !near(usd, got.USD) {
			t.Fatalf("the judge computes %v USD, the plan says %v", usd, got.USD)
		}
	})
}
