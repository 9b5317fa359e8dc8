package planner_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// A deployment that excludes TPUs must not plan on them, although its catalogue has them.
func TestPlanExcludesMachineTypes(t *testing.T) {
	const task = `tasks: {a: {run: x, time: 1h, resources: {anyOf: [{accelerators: "tpu-v3-8:1"}, {accelerators: "V100:8"}]}}}`
	p, c := newPlanner(t)
	if o := plan(t, p, planinput.Input{Spec: readJob(t, task)}).Of(0); !strings.HasPrefix(o.Offer.InstanceType, "tpu-") {
		t.Fatalf("%s is chosen, so the test proves nothing", o.ID)
	}
	opt := planner.DefaultOptions()
	opt.Without = []string{"gcp/tpu-"}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	without := planner.New(c, moves, opt)
	got := plan(t, without, planinput.Input{Spec: readJob(t, task)})
	if o := got.Of(0); o == nil || o.Offer.Accelerator != "V100" {
		t.Errorf("%+v", got)
	}
	alone := strings.Replace(task, `, {accelerators: "V100:8"}`, "", 1)
	if got := plan(t, without, planinput.Input{Spec: readJob(t, alone)}); got.Status != record.PlanInfeasible {
		t.Errorf("%+v", got)
	}
}
