package planner_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// cheapestFixed returns the best plan of a job among all plans with a fixed number of machines per task. The numbers
// are 1 to most.
func cheapestFixed(t *rapid.T, solve func(*dag.Job) *record.Plan, spec *dag.Job, task, most int) (best *record.Plan) {
	if task == len(spec.Tasks) {
		return solve(spec)
	}
	for n := 1; n <= most; n++ {
		fixed := *spec
		fixed.Tasks = append([]dag.Task(nil), spec.Tasks...)
		k := &fixed.Tasks[task]
		if k.Nodes, k.MaxNodes = n, 0; k.Time.Serial == nil && len(k.Time.ByNodes) == 0 {
			k.Time.Serial = new(float64)
		}
		if len(k.NodeCounts()) == 0 {
			continue
		}
		p := cheapestFixed(t, solve, &fixed, task+1, most)
		if p.Status != record.PlanInfeasible && (best == nil || p.Objective < best.Objective) {
			best = p
		}
	}
	if best == nil {
		best = &record.Plan{Status: record.PlanInfeasible}
	}
	return best
}

// If the plan chooses the numbers of machines, it must be as good as the best plan over all fixed numbers.
func TestChosenNodesMatchBruteForce(t *testing.T) {
	p, _ := newPlanner(t)
	const most = 4
	rapid.Check(t, func(t *rapid.T) {
		times := []string{"time: 3h", "time: {default: 3h, serial: 0.1}", "time: {T4: 3h, default: 9h, serial: 0.5}",
			"time: {nodes: {1: 3h, 2: 1h40m, 4: 50m}}", "time: {flops: 1e18, efficiency: 0.3}",
			"time: {flops: 1e18, serial: 0.2}"}
		text := rapid.SampledFrom([]string{"", "objective: makespan\nbudget: 20\n"}).Draw(t, "objective") + "tasks:\n"
		for i := range 2 {
			after := ""
			if i > 0 {
				after = ", after: [t0]"
			}
			text += fmt.Sprintf("  t%d: {run: x, nodes: 1-%d, %s, resources: {accelerators: T4:1%s}%s, "+
				"outputs: [{name: o, size: 20GiB}]}\n", i, most, rapid.SampledFrom(times).Draw(t, "time"),
				rapid.SampledFrom([]string{"", ", market: on-demand"}).Draw(t, "market"), after)
		}
		spec := readJob(t, text)
		in := planinput.Input{}
		if spec.Budget > 0 {
			usd := float64(spec.Budget)
			in.BudgetUSD = &usd
		} else if rapid.Bool().Draw(t, "deadline") {
			hours := rapid.Float64Range(1, 8).Draw(t, "hours")
			in.DeadlineHours = &hours
		}
		solve := func(spec *dag.Job) *record.Plan {
			in.Spec = spec
			got, err := p.Plan(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got, want := solve(spec), cheapestFixed(t, solve, spec, 0, most)
		if got.Status != want.Status && got.Status == record.PlanInfeasible ||
			math.Abs(got.Objective-want.Objective) > 1e-6*want.Objective {
			t.Fatalf("%s %v, brute force %s %v:\n%s", got.Status, got.Objective, want.Status, want.Objective, text)
		}
	})
}

// A task that saved its progress on some number of machines must continue on the same number.
func TestProgressKeepsNumberOfNodes(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, `
tasks:
  a: {run: x, nodes: 1-8, time: 6h, resources: {accelerators: T4:1}, checkpoint: {every: 15m, path: c}}
`)
	two := 2.0
	first := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &two})
	n := first.Of(0).Offer.Nodes
	if n < 3 {
		t.Fatalf("%d nodes for 6 hours of work in 2", n)
	}
	again := planinput.Input{Spec: spec, Previous: first, Tasks: []*planinput.Facts{{}}}
	if got := plan(t, p, again).Of(0).Offer.Nodes; got != 1 {
		t.Errorf("without a deadline and progress: %d nodes", got)
	}
	again.Tasks[0].Progress = 0.5
	if got := plan(t, p, again).Of(0).Offer.Nodes; got != n {
		t.Errorf("%d nodes, the progress was saved on %d", got, n)
	}
}
