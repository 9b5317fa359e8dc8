package judge_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// goodPlan returns a model and a valid plan. Tasks a and b share one machine, and c gets 2 GiB from a on another.
func goodPlan() (*shared.Model, *shared.Plan) {
	deadline, budget := 6.0, 30.0
	m := &shared.Model{
		Objective: optimizer.Cost, DeadlineHours: &deadline, BudgetUSD: &budget, Places: []string{"p", "q"},
		USDPerGiB: [][]float64{{0, 1}, {1, 0}}, HoursPerGiB: [][]float64{{0.1, 0.5}, {0.5, 0.1}},
		Machines: []shared.Machine{
			{ID: "m", USDPerHour: 2, CPUs: 2, MemoryGiB: 4, Speed: 1, BootHours: 0.5, IncrementHours: 1, Most: 1},
			{ID: "n", Place: 1, USDPerHour: 3, CPUs: 1, MemoryGiB: 4, GPUs: 1, Speed: 2, MinimumHours: 3, Most: 1},
		},
		Tasks: []shared.Task{
			{ID: "a", CPUs: 1, MemoryGiB: 2, Hours: 1}, {ID: "b", CPUs: 1, MemoryGiB: 2, Hours: 2},
			{ID: "c", CPUs: 1, MemoryGiB: 1, GPUs: 1, Hours: 2},
		},
		Edges: []optimizer.Edge{{From: "a", To: "c", GiB: 2}},
	}
	p := &shared.Plan{
		Instances: []shared.Instance{{Machine: 0, From: 0, To: 2.5}, {Machine: 1, From: 2.5, To: 3.5}},
		Tasks:     []shared.Run{{On: 0, From: 0.5, To: 1.5}, {On: 0, From: 0.5, To: 2.5}, {On: 1, From: 2.5, To: 3.5}},
	}
	return m, p
}

func TestValidPlanIsPriced(t *testing.T) {
	m, p := goodPlan()
	usd, hours, err := judge.Check(m, p, 0)
	// 2.5 h are billed as 3 h of m, 1 h as 3 h of n, and 2 GiB move from p to q.
	if err != nil || usd != 3*2+3*3+2 || hours != 3.5 {
		t.Errorf("%v USD, %v h, %v", usd, hours, err)
	}
}

// Each case breaks one rule of a valid plan. The judge must find it.
func TestBrokenRulesAreFound(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(*shared.Model, *shared.Plan)
	}{
		{"a task is missing", "2 of 3 tasks", func(_ *shared.Model, p *shared.Plan) { p.Tasks = p.Tasks[:2] }},
		{"no such machine", "machine 2", func(_ *shared.Model, p *shared.Plan) { p.Instances[0].Machine = 2 }},
		{"too many", "more than 0 instances", func(m *shared.Model, _ *shared.Plan) { m.Machines[1].Most = 0 }},
		{"negative time", "is rented from", func(_ *shared.Model, p *shared.Plan) { p.Instances[0].From = -1 }},
		{"no such instance", "instance 2", func(_ *shared.Model, p *shared.Plan) { p.Tasks[1].On = 2 }},
		{"before the boot", "task a starts", func(_ *shared.Model, p *shared.Plan) { p.Instances[0].From = 0.1 }},
		{"after the instance", "task b ends", func(_ *shared.Model, p *shared.Plan) { p.Instances[0].To = 2.4 }},
		{"too short", "task c runs", func(m *shared.Model, _ *shared.Plan) { m.Machines[1].Speed = 1 }},
		{"before its input", "task c starts", func(m *shared.Model, _ *shared.Plan) { m.Edges[0].GiB = 3 }},
		{"too many vCPUs", "its tasks hold", func(m *shared.Model, _ *shared.Plan) { m.Tasks[0].CPUs = 1.5 }},
		{"too much memory", "its tasks hold", func(m *shared.Model, _ *shared.Plan) { m.Tasks[1].MemoryGiB = 3 }},
		{"too many GPUs", "its tasks hold", func(m *shared.Model, _ *shared.Plan) { m.Tasks[2].GPUs = 2 }},
		{"too late", "after the deadline", func(m *shared.Model, _ *shared.Plan) { *m.DeadlineHours = 3.4 }},
		{"too expensive", "of a budget", func(m *shared.Model, _ *shared.Plan) { *m.BudgetUSD = 16.9 }},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			m, p := goodPlan()
			c.change(m, p)
			if _, _, err := judge.Check(m, p, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
