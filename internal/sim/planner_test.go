package sim

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestPlannerIsDeterministic(t *testing.T) {
	r := timeline.NewRandom(7, "plan")
	for range 20 {
		job := &dag.Job{Name: "drawn", Objective: dag.MinimizeCost}
		drawn.Shape(r, job)
		for i := range job.Tasks {
			drawn.Task(r, &job.Tasks[i])
		}
		deadline := 2 * planner.Guarantee(job).Hours()
		in := record.PlanInput{Spec: job, Now: timeline.Beginning(), DeadlineHours: &deadline}
		a, err := planner.New().Plan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := planner.New().Plan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
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
