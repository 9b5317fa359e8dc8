package planner

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// chain returns a job of n tasks that run one after the other, an hour each.
func chain(n int) *dag.Job {
	j := &dag.Job{Name: "chain", Objective: dag.MinimizeCost}
	for i := range n {
		j.Tasks = append(j.Tasks, dag.Task{
			Name: string(rune('a' + i)), Run: "work", Nodes: 1, Resources: []dag.Resources{{}}, Time: dag.TimeEstimate{Default: time.Hour},
		})
		if i > 0 {
			j.Edges = append(j.Edges, dag.Edge{From: i - 1, To: i})
		}
	}
	return j
}

func planOf(t *testing.T, in planinput.Input) *record.Plan {
	t.Helper()
	in.Now = timeline.Beginning()
	plan, err := New().Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func hoursOf(d time.Duration) *float64 { h := d.Hours(); return &h }

func TestCheapestOfferWithoutDeadline(t *testing.T) {
	plan := planOf(t, planinput.Input{Spec: chain(2)})
	for i := range 2 {
		if c := plan.Of(i); c == nil || c.ID != "aws/us-east-1/use1-az1/m5.xlarge/spot" {
			t.Errorf("task %d goes to %+v", i, c)
		}
	}
}

// TestRunningTaskKeepsItsPlace: a running task keeps its place in a new plan, and the plan also lets it start again.
// The task may be lost while the plan is made, as in the broker's planner.
func TestRunningTaskKeepsItsPlace(t *testing.T) {
	in := planinput.Input{Spec: chain(2), Tasks: []*planinput.Facts{{Fixed: true, Hours: 0.5}, nil}}
	in.Previous = planOf(t, planinput.Input{Spec: chain(2)})
	if plan := planOf(t, in); plan.Of(0) == nil || plan.Of(0).ID != in.Previous.Of(0).ID {
		t.Errorf("the running task has the place %+v", plan.Of(0))
	}
}

func TestDeadlineForbidsRiskySpot(t *testing.T) {
	job := chain(2)
	// This is enough time to repeat one of the two tasks.
	deadline := Guarantee(job) + time.Hour + PlannedOverhead + PlannedDetect
	plan := planOf(t, planinput.Input{Spec: job, DeadlineHours: hoursOf(deadline)})
	if plan.Late || !plan.Of(0).Offer.Spot || plan.Of(1).Offer.Spot {
		t.Errorf("late %v, %s, then %s", plan.Late, plan.Of(0).ID, plan.Of(1).ID)
	}
	plan = planOf(t, planinput.Input{Spec: job, DeadlineHours: hoursOf(Guarantee(job))})
	if plan.Late || plan.Of(0).Offer.Spot || plan.Of(1).Offer.Spot {
		t.Errorf("with no time to spare: late %v, %s, then %s", plan.Late, plan.Of(0).ID, plan.Of(1).ID)
	}
	plan = planOf(t, planinput.Input{Spec: job, DeadlineHours: hoursOf(Guarantee(job) - time.Minute)})
	if plan.Status != record.PlanInfeasible {
		t.Errorf("with less time than it takes: %s", plan.Status)
	}
}

func TestBudgetAndBlocks(t *testing.T) {
	job := chain(1)
	usd := 0.05
	if plan := planOf(t, planinput.Input{Spec: job, BudgetUSD: &usd}); plan.Status != record.PlanInfeasible {
		t.Errorf("an hour for 5 cents: %s on %s", plan.Status, plan.Of(0).ID)
	}
	block := apitypes.Block{Cloud: "aws", Until: timeline.Beginning().Add(time.Hour)}
	if plan := planOf(t, planinput.Input{Spec: job, Blocks: []apitypes.Block{block}}); plan.Of(0).Offer.Cloud == "aws" {
		t.Errorf("with aws blocked it goes to %s", plan.Of(0).ID)
	}
}

// A rule packs three tasks into one region, and the first has finished. The other two must still go to one region.
func TestRemainingTasksArePacked(t *testing.T) {
	job := chain(3)
	job.Tasks[2].Resources = []dag.Resources{{Region: "eu-west-1"}} // the other tasks are cheapest in us-east-1
	job.Placement = []dag.Placement{{Pack: dag.LevelRegion, Of: []string{"a", "b", "c"}}}
	plan := planOf(t, planinput.Input{Spec: job, Tasks: []*planinput.Facts{{Done: true}, nil, nil}})
	for _, i := range []int{1, 2} {
		if c := plan.Of(i); c == nil || c.Offer.Region != "eu-west-1" {
			t.Errorf("task %d goes to %+v", i, c)
		}
	}
}

// The cheapest place of the first task leaves no place for the others, by a placement rule. The first task must then
// go to another place.
func TestRulesAreSatisfiedTogether(t *testing.T) {
	job := chain(3)
	job.Tasks[2].Resources = []dag.Resources{{Region: "us-east-1"}} // all three are cheapest here
	job.Placement = []dag.Placement{
		{Pack: dag.LevelRegion, Of: []string{"b", "c"}}, {Spread: dag.LevelRegion, Of: []string{"a", "b"}},
	}
	plan := planOf(t, planinput.Input{Spec: job})
	if a, b := plan.Of(0), plan.Of(1); a == nil || b == nil || b.Offer.Region != "us-east-1" ||
		a.Offer.Region == b.Offer.Region {
		t.Errorf("a goes to %+v and b to %+v", a, b)
	}
	job.Tasks[0].Resources = []dag.Resources{{Region: "us-east-1"}}
	if plan := planOf(t, planinput.Input{Spec: job}); plan.Status != record.PlanInfeasible {
		t.Errorf("rules that hold nowhere: %s", plan.Status)
	}
}

// A task that has lost as much work on spot machines as it contains must run on demand, if an on-demand offer is not
// blocked.
func TestLostWorkEndsSpot(t *testing.T) {
	facts := func(lost float64) []*planinput.Facts { return []*planinput.Facts{{LostHours: lost}} }
	for _, c := range []struct {
		name   string
		lost   float64
		market dag.Market
		block  string
		spot   bool
	}{
		{name: "less than it contains", lost: 0.9, spot: true},
		{name: "as much as it contains", lost: 1},
		{name: "only spot is allowed", lost: 5, market: dag.MarketSpot, spot: true},
		{name: "on demand is blocked", lost: 5, block: "on-demand", spot: true},
	} {
		job := chain(1)
		job.Tasks[0].Resources[0].Market = c.market
		in := planinput.Input{Spec: job, Tasks: facts(c.lost)}
		if c.block != "" {
			for _, cloud := range []string{"aws", "azure", "gcp"} {
				in.Blocks = append(in.Blocks, apitypes.Block{Cloud: cloud, Market: c.block,
					Until: timeline.Beginning().Add(time.Hour)})
			}
		}
		if got := planOf(t, in).Of(0).Offer.Spot; got != c.spot {
			t.Errorf("%s: on spot is %v", c.name, got)
		}
	}
}

// sharing returns a job whose tasks share machines. cpus lists the cores of each task.
func sharing(cpus ...float64) *dag.Job {
	j := &dag.Job{Name: "sharing", Objective: dag.MinimizeCost}
	for i, n := range cpus {
		j.Tasks = append(j.Tasks, dag.Task{Name: string(rune('a' + i)), Run: "work", Nodes: 1, Share: dag.ShareJob,
			Resources: []dag.Resources{{CPUs: dag.Range{Min: n}}}, Time: dag.TimeEstimate{Default: time.Hour}})
	}
	return j.WithWorkers()
}

func TestFleetHoldsItsLargestMember(t *testing.T) {
	job := sharing(1, 8, 2)
	plan := planOf(t, planinput.Input{Spec: job, Job: "sharing-1"})
	workers := 0
	for i := job.Work(); i < len(job.Tasks); i++ {
		if c := plan.Of(i); c != nil {
			if workers++; c.VCPU < 8 || plan.TaskUSD[i] <= 0 {
				t.Errorf("worker %d is %s with %g vCPUs and costs %g USD", i, c.ID, c.VCPU, plan.TaskUSD[i])
			}
		}
	}
	if workers == 0 || workers > mostWorkers {
		t.Errorf("%d workers for 3 tasks", workers)
	}
	for i := range job.Work() {
		if on := int(plan.On[i]); plan.TaskUSD[i] != 0 || plan.Of(on) == nil || plan.Of(i) != plan.Of(on) {
			t.Errorf("task %d costs %g USD on %v, and its worker %d is %v", i, plan.TaskUSD[i], plan.Of(i), on, plan.Of(on))
		}
	}
}

func TestRunningWorkerKeepsItsPlace(t *testing.T) {
	job := sharing(1, 1)
	first := planOf(t, planinput.Input{Spec: job, Job: "sharing-1"})
	worker := job.Work()
	facts := make([]*planinput.Facts, len(job.Tasks))
	facts[worker] = &planinput.Facts{Fixed: true, Place: "aws:us-east-1"}
	next := planOf(t, planinput.Input{Spec: job, Job: "sharing-1", Previous: first, Tasks: facts,
		Blocks: []apitypes.Block{{Cloud: "aws", Kind: "auth", Until: timeline.Beginning().Add(time.Hour)}}})
	if was, is := first.Of(worker), next.Of(worker); was == nil || is == nil || was.ID != is.ID {
		t.Errorf("the plan of a running worker was %v and is %v", was, is)
	}
}
