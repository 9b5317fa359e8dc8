package attempt

import (
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestPostponedPlanIsMadeWhenChiefSucceeds: a plan was postponed until a machine that will be taken has saved its
// work. If the gang's chief succeeds first, the plan must still be requested, because other tasks may wait for it.
func TestPostponedPlanIsMadeWhenChiefSucceeds(t *testing.T) {
	for minPlan, want := range map[int]bool{0: false, 3: false, 4: true} {
		m := Member{Bought: true}
		m.Job = record.Job{ID: "j", State: apitypes.JobRunning, Plan: record.Blob{Version: 3}}
		m.Task = record.Task{Job: "j", State: record.TaskRunning, Gang: "g", Attempt: 1}
		m.Cluster = record.Cluster{ID: "j.0.1", Job: "j", State: record.ClusterDoomed, MinPlan: minPlan}
		d := DecideComplete(m, time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
		asked := slices.ContainsFunc(d.Emits, func(e events.Data) bool { _, is := e.(events.DAGReplan); return is })
		if asked != want {
			t.Errorf("plan 3 in force, plan %d awaited: a plan is requested: %v", minPlan, asked)
		}
	}
}
