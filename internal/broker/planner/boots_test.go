package planner_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestPlanUsesBootsOfEarlierJobs: boots of earlier jobs took an hour. A deadline that is feasible with the
// catalogue's boots is then infeasible, and the plan states the expected boots. If the earlier boots were like the
// catalogue's, the plan does not change.
func TestPlanUsesBootsOfEarlierJobs(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, "tasks: {a: {run: x, time: 30m, resources: {instanceType: m5.xlarge, market: on-demand}}}\n")
	hours := 1.5
	with := func(boot float64, runs int) planinput.Input {
		return planinput.Input{Spec: spec, DeadlineHours: &hours, Boots: map[string]apitypes.RunTimes{
			planinput.BootKey("aws", "m5.xlarge"): {Runs: runs, Log: math.Log(boot)}}}
	}
	before := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &hours})
	same := plan(t, p, with(before.Of(0).Offer.BootSeconds/3600, 40))
	if math.Abs(same.Hours-before.Hours) > 0.001 || len(same.Notes) != len(before.Notes) {
		t.Errorf("%v h with boots as measured, not %v; notes %q", same.Hours, before.Hours, same.Notes)
	}
	later := plan(t, p, with(0.05, 40))
	if more := later.Hours - before.Hours; more < 0.03 || more > 0.05 {
		t.Errorf("boots of 3 minutes add %v h", more)
	}
	if note := strings.Join(later.Notes, "\n"); !strings.Contains(note, "aws/m5.xlarge booted in 3m in earlier jobs of this name (boots: 40)") {
		t.Errorf("notes: %s", note)
	}
	if got := plan(t, p, with(1, 1000)); !got.Late && got.Status != "infeasible" {
		t.Errorf("with boots of an hour: %s, %v h", got.Status, got.Hours)
	}
}
