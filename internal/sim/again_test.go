package sim

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// unsure is a planner that plans its first job with another objective, so two runs of one seed differ.
type unsure struct {
	broker.Planner
	asked *atomic.Int64
}

const first = 3

func (u unsure) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	if u.asked.Add(1) <= first {
		spec := *in.Spec
		spec.Objective = map[dag.Objective]dag.Objective{
			dag.MinimizeCost: dag.MinimizeMakespan, dag.MinimizeMakespan: dag.MinimizeCost}[spec.Objective]
		in.Spec = &spec
	}
	return u.Planner.Plan(ctx, in)
}

func TestChaosDetectsNondeterminism(t *testing.T) {
	var asked atomic.Int64
	report, err := Chaos(t.Context(), 25, 26, ChaosOptions{Options: Options{Planner: unsure{planner.New(), &asked}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) != 1 || report.Violations[0].Invariant != check.InvOneHistory {
		t.Errorf("found %+v", report.Violations)
	}
	asked.Store(first)
	report, err = Chaos(t.Context(), 25, 26, ChaosOptions{Options: Options{Planner: unsure{planner.New(), &asked}}}, nil)
	if err != nil || len(report.Violations) > 0 {
		t.Errorf("one that does not: %v, %+v", err, report.Violations)
	}
}
