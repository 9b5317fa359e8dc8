package broker

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestRunningJobIsPlannedAgainAfterTheRestOfThePlanner(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failed int
		ago    time.Duration
		again  bool
	}{
		{0, 5 * time.Hour, false}, {1, time.Minute, false}, {1, 20 * time.Minute, true},
		{3, 20 * time.Minute, false}, {3, 61 * time.Minute, true},
	} {
		job := record.Job{ID: "j", State: apitypes.JobRunning,
			PlanTries: record.PlanTries{Failed: c.failed, FailedAt: now.Add(-c.ago)}}
		again := false
		for _, e := range decideNudge(&walked{job: job}, config.Default(), now).Emits {
			_, replans := e.(events.DAGReplan)
			again = again || replans
		}
		if again != c.again {
			t.Errorf("%d failures, the last %v ago: planned again %v", c.failed, c.ago, again)
		}
	}
}
