package planner_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// sharing returns a job of tasks that share machines. each lists their run times.
func sharing(each ...time.Duration) *dag.Job {
	j := &dag.Job{Name: "j", Objective: dag.MinimizeCost}
	for i, d := range each {
		j.Tasks = append(j.Tasks, dag.Task{Name: fmt.Sprintf("a[%d]", i), Nodes: 1, Share: dag.ShareJob,
			Resources: []dag.Resources{{}}, Time: dag.TimeEstimate{Default: d}})
	}
	return j
}

// array returns a job of n equal tasks that share machines.
func array(n int, each time.Duration) *dag.Job {
	return sharing(slices.Repeat([]time.Duration{each}, n)...)
}

func near(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(1, math.Abs(x), math.Abs(y)) }

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkFleets checks that a plan without moved data counts each dollar once, and that its fleets, workers and members
// agree.
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
		if used && w < len(got.From) && (got.From[w] < 0 || got.From[w]+got.TaskHours[w] > got.Hours*(1+1e-9)) {
			t.Fatalf("worker task %d is bought after %v h for %v h; the plan takes %v h", w, got.From[w],
				got.TaskHours[w], got.Hours)
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
	p := smallPlanner(t)
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

// smallPlanner returns a planner that plans in two regions and searches only briefly.
func smallPlanner(t testing.TB) *planner.Planner {
	t.Helper()
	_, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := planner.DefaultOptions()
	opt.Now, opt.Regions = nil, []string{"aws:us-east-1", "gcp:us-central1"}
	p := planner.New(c, moves, opt)
	planner.SetEffort(p, 0.02)
	return p
}

// fewerChecks limits a property test to n checks, unless the command line sets rapid.checks. Each check makes several
// plans.
func fewerChecks(t *testing.T, n string) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if asked {
		return
	}
	checks := flag.Lookup("rapid.checks").Value
	old := checks.String()
	if err := checks.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(old) })
}

func TestPlansOfFleetsAreValid(t *testing.T) {
	p := smallPlanner(t)
	fewerChecks(t, "30")
	rapid.Check(t, func(t *rapid.T) {
		var each []time.Duration
		for range rapid.IntRange(2, 8).Draw(t, "tasks") {
			each = append(each, time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds"))*time.Second)
		}
		spec := sharing(each...)
		for i := range spec.Tasks {
			spec.Tasks[i].Resources[0].CPUs.Min = float64(rapid.IntRange(0, 8).Draw(t, "cpus"))
			spec.Tasks[i].Resources[0].Memory.Min = float64(rapid.IntRange(0, 4).Draw(t, "memory"))
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
		if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
			budget := rapid.Float64Range(0, 2).Draw(t, "budget")
			in.BudgetUSD = &budget
		}
		got, err := p.Plan(context.Background(), in)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if in.BudgetUSD != nil && got.USD > *in.BudgetUSD {
			t.Fatalf("%v USD of %v USD", got.USD, *in.BudgetUSD)
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
			faster := *f.Model
			faster.Machines = slices.Clone(faster.Machines)
			for k := range faster.Machines {
				faster.Machines[k].Speed *= 1 + float64(k%3)
			}
			again := planner.Retimed(&faster, f.Plan)
			cost, hours, err := judge.Check(&faster, again, 1e-9)
			if err != nil || !near(cost, again.USD) || !near(hours, again.Hours) || hours > f.Plan.Hours*(1+1e-9) {
				t.Fatalf("%v: on faster machines %v USD and %v h, %+v", err, cost, hours, again)
			}
		}
		if !near(usd, got.USD) {
			t.Fatalf("the judge computes %v USD, the plan says %v", usd, got.USD)
		}
	})
}

// running returns the facts of a job that has started: done members have finished, and now members run on the first
// planned machine.
func running(spec *dag.Job, prev *record.Plan, done, now int) []*planinput.Facts {
	facts := make([]*planinput.Facts, len(spec.Tasks))
	place := prev.Of(0).Offer.Cloud + ":" + prev.Of(0).Offer.Region
	w := spec.Work()
	facts[w] = &planinput.Facts{Fixed: true, Place: place, Hours: prev.TaskHours[w] / 2}
	for i := range spec.Work() {
		switch {
		case int(prev.On[i]) != w:
		case done > 0:
			done--
			facts[i] = &planinput.Facts{Done: true, Place: place}
		case now > 0:
			now--
			facts[i] = &planinput.Facts{Fixed: true, Place: place, Hours: prev.TaskHours[i] / 2}
		}
	}
	return facts
}

func TestReplanUsesRunningMachineFirst(t *testing.T) {
	p := smallPlanner(t)
	spec := array(100, time.Minute).WithWorkers()
	w := spec.Work()
	first := plan(t, p, planinput.Input{Spec: spec})
	facts := running(spec, first, 30, 2)
	got := plan(t, p, planinput.Input{Job: "j", Spec: spec, Previous: first, Tasks: facts})
	if got.Of(w) == nil || got.Of(w).ID != first.Of(w).ID || got.USD > first.USD*0.8 {
		t.Errorf("%+v at %v USD, before %v USD", got.Of(w), got.USD, first.USD)
	}
	on := 0
	for i := range spec.Work() {
		switch f := facts[i]; {
		case f != nil && f.Done && got.Choice[i] >= 0:
			t.Errorf("finished task %d has a choice", i)
		case f != nil && f.Fixed && (got.On[i] != first.On[i] || got.Of(i).ID != first.Of(i).ID):
			t.Errorf("running task %d moved", i)
		case f == nil && got.On[i] == int32(w):
			on++
		case f == nil && !got.IsShared(i):
			t.Errorf("task %d has no machine", i)
		}
	}
	if on == 0 {
		t.Error("no task is planned on the running machine")
	}
}

func TestReplanBuysNothingForRunningTasks(t *testing.T) {
	p := smallPlanner(t)
	spec := array(4, time.Hour).WithWorkers()
	first := plan(t, p, planinput.Input{Spec: spec})
	facts := make([]*planinput.Facts, len(spec.Tasks))
	for i := range facts {
		if c := first.Of(i); c != nil {
			facts[i] = &planinput.Facts{Fixed: true, Place: c.Offer.Cloud + ":" + c.Offer.Region, Hours: 0.5}
		}
	}
	got := plan(t, p, planinput.Input{Job: "j", Spec: spec, Previous: first, Tasks: facts})
	if len(got.Fleets) > 0 || got.USD != 0 || !reflect.DeepEqual(got.On, first.On) {
		t.Errorf("%v USD, fleets %+v, on %v", got.USD, got.Fleets, got.On)
	}
	for w := spec.Work(); w < len(spec.Tasks); w++ {
		if (got.Of(w) == nil) != (first.Of(w) == nil) {
			t.Errorf("worker task %d: %v, before %v", w, got.Of(w), first.Of(w))
		}
	}
}

func TestTightDeadlineBuysMoreMachines(t *testing.T) {
	p := smallPlanner(t)
	spec := array(300, 10*time.Minute).WithWorkers()
	loose, tight := 40.0, 0.4
	slow := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &loose})
	fast := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &tight})
	checkFleets(t, spec, slow)
	checkFleets(t, spec, fast)
	if fast.Hours > tight || slow.Hours <= tight || fast.USD <= slow.USD {
		t.Errorf("%v USD in %v h, with the tight deadline %v USD in %v h", slow.USD, slow.Hours, fast.USD, fast.Hours)
	}
}

func TestDeadlineWithoutTimeForInterruptionsUsesNoSpot(t *testing.T) {
	p := smallPlanner(t)
	spec := array(4, time.Hour).WithWorkers()
	first := plan(t, p, planinput.Input{Spec: spec})
	if !first.Of(0).Offer.Spot {
		t.Fatalf("planned on %+v", first.Of(0))
	}
	hours := first.Hours * 1.02
	got := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &hours})
	checkFleets(t, spec, got)
	for i := range spec.Work() {
		if c := got.Of(i); c.Offer.Spot {
			t.Errorf("within %v h on %+v", hours, c)
		}
	}
}

func TestMembersWaitForTaskBeforeThem(t *testing.T) {
	p := smallPlanner(t)
	spec := array(3, time.Hour)
	spec.Tasks = append(spec.Tasks, dag.Task{Name: "before", Nodes: 1, Time: dag.TimeEstimate{Default: time.Hour}})
	for i := range spec.Tasks { // run times are certain on this machine
		spec.Tasks[i].Resources = []dag.Resources{{InstanceType: "m6i.xlarge", Market: dag.MarketOnDemand}}
	}
	spec.Edges = []dag.Edge{{From: 3, To: 0}, {From: 0, To: 1}, {From: 1, To: 2}}
	spec = spec.WithWorkers()
	for hours, feasible := range map[float64]bool{3.5: false, 4.5: true} {
		got := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &hours})
		if (got.Status != record.PlanInfeasible) != feasible || feasible && (len(got.Fleets) == 0 || got.Hours < 4) {
			t.Errorf("deadline %v h: %s, %v h, fleets %v, notes %q", hours, got.Status, got.Hours, got.Fleets, got.Notes)
		}
	}
}

// merged returns an array followed by a task that does not share a machine.
func merged() *dag.Job {
	spec := array(50, time.Minute)
	spec.Tasks = append(spec.Tasks, dag.Task{Name: "merge", Nodes: 1, Resources: []dag.Resources{{}},
		Time: dag.TimeEstimate{Default: time.Hour}})
	for i := range 50 {
		spec.Edges = append(spec.Edges, dag.Edge{From: i, To: 50})
	}
	return spec.WithWorkers()
}

func TestTaskWithOwnMachineFollowsSharingTasks(t *testing.T) {
	p := smallPlanner(t)
	spec := merged()
	got := plan(t, p, planinput.Input{Spec: spec})
	checkFleets(t, spec, got)
	if len(got.Fleets) == 0 || got.IsShared(50) || got.Of(50) == nil || got.Hours < got.TaskHours[50]+0.01 {
		t.Errorf("%v h, fleets %+v, merge %+v for %v h", got.Hours, got.Fleets, got.Of(50), got.TaskHours[50])
	}
}

func TestMixedJobKeepsDeadlineAndBudget(t *testing.T) {
	p := smallPlanner(t)
	spec := merged()
	loose, tight, usd := 3.0, 1.2, 0.2
	for _, in := range []planinput.Input{
		{Spec: spec, DeadlineHours: &loose},
		{Spec: spec, DeadlineHours: &tight},
		{Spec: spec, DeadlineHours: &loose, BudgetUSD: &usd},
	} {
		got := plan(t, p, in)
		if got.Status == record.PlanInfeasible || len(got.Fleets) == 0 {
			t.Fatalf("deadline %v h: %s, fleets %v, notes %q", *in.DeadlineHours, got.Message, got.Fleets, got.Notes)
		}
		checkFleets(t, spec, got)
		if got.Hours > *in.DeadlineHours || in.BudgetUSD != nil && got.USD > usd {
			t.Errorf("%v h of %v h, %v USD", got.Hours, *in.DeadlineHours, got.USD)
		}
		if o := got.Of(50).Offer; got.Hours < got.TaskHours[50]+got.TaskHours[0] {
			t.Errorf("the job takes %v h, but its last task on %v alone %v h", got.Hours, o, got.TaskHours[50])
		}
	}
}

func TestDeadlineThatNoSharedMachinesKeepNamesGuaranteedTimes(t *testing.T) {
	p := smallPlanner(t)
	soon := 0.05
	got := plan(t, p, planinput.Input{Spec: array(300, 10*time.Minute).WithWorkers(), DeadlineHours: &soon})
	if got.Status != record.PlanInfeasible || !strings.Contains(got.Message, "(guaranteed times: ") {
		t.Errorf("%s: %s", got.Status, got.Message)
	}
}

func TestMixedJobIsInfeasibleWithTooSmallBudget(t *testing.T) {
	p := smallPlanner(t)
	spec := merged()
	usd := 0.9 * plan(t, p, planinput.Input{Spec: spec}).USD
	if got := plan(t, p, planinput.Input{Spec: spec, BudgetUSD: &usd}); got.Status != record.PlanInfeasible {
		t.Errorf("%s: %v USD of %v USD", got.Status, got.USD, usd)
	}
}

func TestPlanSaysWhyNoTasksShare(t *testing.T) {
	p, _ := newPlanner(t)
	hours := 5.0
	spec := merged()
	spec.Tasks = spec.Tasks[:51]
	spec.Edges = []dag.Edge{{From: 0, To: 50}, {From: 50, To: 1}} // a task with its own machine
	spec = spec.WithWorkers()
	got := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &hours})
	if len(got.Fleets) > 0 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "no tasks share machines") {
		t.Errorf("fleets %v, notes %q", got.Fleets, got.Notes)
	}
	for i := range spec.Tasks {
		if (got.Of(i) == nil) != (spec.Tasks[i].Worker != nil) || got.IsShared(i) {
			t.Errorf("task %d is planned on %+v", i, got.Of(i))
		}
	}
}

func TestFleetRunsWhereItsDataIs(t *testing.T) {
	p, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := planner.DefaultOptions()
	opt.Now, opt.Stores = nil, stores(t, "eu-west-1")
	stored := planner.New(c, moves, opt)
	for _, test := range []struct {
		name string
		p    *planner.Planner
		task dag.Task
		at   string
	}{
		{"inputs", p, dag.Task{Inputs: []dag.Input{{URI: "s3://bucket/in", Size: 50}}}, moves.PlaceOf("s3://bucket/in")},
		{"outputs", stored, dag.Task{Outputs: []dag.Output{{Name: "o", Size: 50}}}, "aws:eu-west-1"},
	} {
		spec := array(20, time.Minute)
		for i := range spec.Tasks {
			spec.Tasks[i].Inputs, spec.Tasks[i].Outputs = test.task.Inputs, test.task.Outputs
		}
		spec = spec.WithWorkers()
		got := plan(t, test.p, planinput.Input{Spec: spec})
		checkFleets(t, spec, got) // no data move to another region
		if o := got.Of(0); len(got.Fleets) == 0 || o.Offer.Cloud+":"+o.Offer.Region != test.at {
			t.Errorf("%s in %s: %+v in %v", test.name, test.at, got.Fleets, o)
		}
	}
}

func TestFleetOfWorkflowMovesNoDataBetweenRegions(t *testing.T) {
	p := smallPlanner(t)
	spec := array(12, 10*time.Minute)
	for i := range 10 {
		spec.Edges = append(spec.Edges, dag.Edge{From: i, To: i + 2, Data: 30})
	}
	spec = spec.WithWorkers()
	got := plan(t, p, planinput.Input{Spec: spec})
	checkFleets(t, spec, got)
	if len(got.Fleets) == 0 {
		t.Errorf("no fleets: %+v", got)
	}
}

func TestFleetThatMovesDataMayBeSpotOnly(t *testing.T) {
	p, _ := newPlanner(t)
	spec := array(12, 10*time.Minute)
	for i := range spec.Tasks {
		spec.Tasks[i].Resources = []dag.Resources{{Market: dag.MarketSpot}}
	}
	for i := range 10 {
		spec.Edges = append(spec.Edges, dag.Edge{From: i, To: i + 2, Data: 30})
	}
	spec = spec.WithWorkers()
	got := plan(t, p, planinput.Input{Spec: spec})
	checkFleets(t, spec, got)
	if len(got.Fleets) == 0 || !got.Of(0).Offer.Spot {
		t.Errorf("%+v on %+v", got.Fleets, got.Of(0))
	}
}

func TestSharedTasksTakeTimeToHandle(t *testing.T) {
	p, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	spec := array(200, 10*time.Second).WithWorkers()
	without := plan(t, p, planinput.Input{Spec: spec})
	opt := planner.DefaultOptions()
	opt.Now, opt.Handling = nil, opt.Handling+time.Second
	if with := plan(t, planner.New(c, moves, opt), planinput.Input{Spec: spec}); with.USD < without.USD*1.05 {
		t.Errorf("%v USD; with a second more for each task %v", without.USD, with.USD)
	}
}

func TestOtherAnswersIgnoreWorkers(t *testing.T) {
	p, _ := newPlanner(t)
	in := planinput.Input{Spec: array(3, time.Minute).WithWorkers()}
	got := plan(t, p, in)
	m, err := p.Model(in)
	if err != nil || len(m.Tasks) != 3 {
		t.Errorf("%v, a model of %d tasks", err, len(m.Tasks))
	}
	front, err := p.Frontier(context.Background(), in, optimizer.FrontierOptions{MaxPoints: 3})
	if err != nil || len(front.Points) == 0 {
		t.Errorf("%v, %v", front, err)
	}
	if kg := p.Emissions(in, got); kg != 0 {
		t.Errorf("%v kg for machines whose emissions are not counted", kg)
	}
}
