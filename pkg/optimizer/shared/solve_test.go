package shared_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// TestStories solves models. The command is:
//
//	solve       the JSON text of a model; missing fields have the defaults of defaults
//
// It prints the instances and the tasks of the plan, checked by a strict judge.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "solve" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return solveStory(t, d.Input)
		})
	})
}

// story is the short form of a model with one place. Each task needs one vCPU.
type story struct {
	Objective     string
	DeadlineHours *float64
	BudgetUSD     *float64
	MostInstances int
	Machines      []json.RawMessage
	Tasks         []json.RawMessage
	Edges         []optimizer.Edge
	Places        []string
	USDPerGiB     [][]float64
	HoursPerGiB   [][]float64
}

func solveStory(t *testing.T, text string) string {
	in := story{
		Objective: "cost", Places: []string{"here"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0.5}},
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return fmt.Sprintf("bad story: %v\n", err)
	}
	m := &shared.Model{
		Objective: optimizer.Objective(in.Objective), DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD,
		Places: in.Places, USDPerGiB: in.USDPerGiB, HoursPerGiB: in.HoursPerGiB, Edges: in.Edges,
		MostInstances: in.MostInstances,
	}
	for _, raw := range in.Machines {
		k := shared.Machine{CPUs: 1, MemoryGiB: 8, Speed: 1, USDPerHour: 1, Most: 10}
		if err := json.Unmarshal(raw, &k); err != nil {
			return fmt.Sprintf("bad machine: %v\n", err)
		}
		m.Machines = append(m.Machines, k)
	}
	for _, raw := range in.Tasks {
		k := shared.Task{CPUs: 1, MemoryGiB: 1, Hours: 1}
		if err := json.Unmarshal(raw, &k); err != nil {
			return fmt.Sprintf("bad task: %v\n", err)
		}
		m.Tasks = append(m.Tasks, k)
	}
	s, err := shared.Solve(context.Background(), m, shared.Options{})
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	if s.Plan == nil {
		return fmt.Sprintf("%s: %s\n", s.Status, s.Message)
	}
	checkSolution(t, m, s)
	return describe(m, s)
}

func describe(m *shared.Model, s *shared.Solution) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %.4g USD, %.4g h, bound %.4g\n", s.Status, s.Plan.USD, s.Plan.Hours, s.Bound)
	for i, x := range s.Plan.Instances {
		fmt.Fprintf(&b, "%d %s %.4g-%.4g:", i, m.Machines[x.Machine].ID, x.From, x.To)
		for t, r := range s.Plan.Tasks {
			if r.On == i {
				fmt.Fprintf(&b, " %s %.4g-%.4g", m.Tasks[t].ID, r.From, r.To)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fatal has the methods that testing.TB and rapid have in common.
type fatal interface {
	Helper()
	Fatalf(string, ...any)
}

// checkSolution fails the test unless the plan is valid without tolerance and its figures are right.
func checkSolution(t fatal, m *shared.Model, s *shared.Solution) {
	t.Helper()
	usd, hours, err := judge.Check(m, s.Plan, 0)
	if err != nil {
		t.Fatalf("invalid plan: %v", err)
	}
	objective := usd
	if m.Objective == optimizer.Makespan {
		objective = hours
	}
	switch {
	case math.Abs(usd-s.Plan.USD) > 1e-12*usd || hours != s.Plan.Hours:
		t.Fatalf("reports %v USD and %v h, but it is %v USD and %v h", s.Plan.USD, s.Plan.Hours, usd, hours)
	case s.Bound > objective:
		t.Fatalf("the bound %v is above the plan's %v", s.Bound, objective)
	}
}

func TestCancelledSearchReturnsError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := &shared.Model{
		Objective: optimizer.Cost, Places: []string{"p"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}},
		Machines: []shared.Machine{{ID: "m", USDPerHour: 1, CPUs: 1, Speed: 1, Most: 1}},
		Tasks:    []shared.Task{{ID: "a", CPUs: 1, Hours: 1}},
	}
	if _, err := shared.Solve(ctx, m, shared.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
