package sim

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func claims(cluster string, rank int) wire.Claims {
	return wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster, Rank: rank}
}

// chain is a job of tasks that each take an hour, one after the other.
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

func planOf(t *testing.T, in record.PlanInput) *record.Plan {
	t.Helper()
	in.Now = beginning()
	plan, err := newPlanner().Plan(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func hoursOf(d time.Duration) *float64 { h := d.Hours(); return &h }

func TestWithoutADeadlineTheCheapestIsTaken(t *testing.T) {
	plan := planOf(t, record.PlanInput{Spec: chain(2)})
	for i := range 2 {
		if c := plan.Of(i); c == nil || c.ID != "aws/us-east-1/use1-az1/m5.xlarge/spot" {
			t.Errorf("task %d goes to %+v", i, c)
		}
	}
}

func TestADeadlineForbidsSpotWhereItsLossCouldNotBeMadeGood(t *testing.T) {
	job := chain(2)
	// Enough for one of the two to be done twice.
	deadline := Guarantee(job) + time.Hour + PlannedOverhead + PlannedDetect
	plan := planOf(t, record.PlanInput{Spec: job, DeadlineHours: hoursOf(deadline)})
	if plan.Late || !plan.Of(0).Offer.Spot || plan.Of(1).Offer.Spot {
		t.Errorf("late %v, %s, then %s", plan.Late, plan.Of(0).ID, plan.Of(1).ID)
	}
	plan = planOf(t, record.PlanInput{Spec: job, DeadlineHours: hoursOf(Guarantee(job))})
	if plan.Late || plan.Of(0).Offer.Spot || plan.Of(1).Offer.Spot {
		t.Errorf("with no time to spare: late %v, %s, then %s", plan.Late, plan.Of(0).ID, plan.Of(1).ID)
	}
	plan = planOf(t, record.PlanInput{Spec: job, DeadlineHours: hoursOf(Guarantee(job) - time.Minute)})
	if plan.Status != record.PlanInfeasible {
		t.Errorf("with less time than it takes: %s", plan.Status)
	}
}

func TestABudgetAndABlockAreKept(t *testing.T) {
	job := chain(1)
	usd := 0.05
	if plan := planOf(t, record.PlanInput{Spec: job, BudgetUSD: &usd}); plan.Status != record.PlanInfeasible {
		t.Errorf("an hour for 5 cents: %s on %s", plan.Status, plan.Of(0).ID)
	}
	block := record.Block{Cloud: "aws", Until: beginning().Add(time.Hour)}
	if plan := planOf(t, record.PlanInput{Spec: job, Blocks: []record.Block{block}}); plan.Of(0).Offer.Cloud == "aws" {
		t.Errorf("with aws blocked it goes to %s", plan.Of(0).ID)
	}
}

func TestTheSameInputGivesTheSamePlan(t *testing.T) {
	r := newRandom(7, "plan")
	for range 20 {
		job := &dag.Job{Name: "drawn", Objective: dag.MinimizeCost}
		drawShape(r, job)
		for i := range job.Tasks {
			drawTask(r, &job.Tasks[i])
		}
		in := record.PlanInput{Spec: job, DeadlineHours: hoursOf(2 * Guarantee(job))}
		a, b := planOf(t, in), planOf(t, in)
		if a.Status != b.Status || a.USD != b.USD || len(a.Choice) != len(b.Choice) {
			t.Fatalf("%+v\n%+v", a, b)
		}
		for i := range a.Choice {
			if a.Choice[i] != b.Choice[i] {
				t.Fatalf("task %d: %d, then %d", i, a.Choice[i], b.Choice[i])
			}
		}
	}
}
