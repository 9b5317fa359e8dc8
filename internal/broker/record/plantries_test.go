package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

func TestJobWithUnreadableRecordsFailsAfterManyTriesAndALongTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		tries int
		every time.Duration
		spent bool
	}{
		"an outage of minutes": {20, time.Minute, false},
		"few tries in a day":   {9, 3 * time.Hour, false},
		"for hours":            {10, 10 * time.Minute, true},
	} {
		var tries record.PlanTries
		for i := range c.tries {
			tries.Begin(now, time.Minute)
			tries.CannotLoad("the plan is missing", now.Add(time.Duration(i)*c.every), record.UnreadFor)
		}
		if tries.Spent() != c.spent {
			t.Errorf("%s: %+v", name, tries)
		}
		if c.spent && !strings.Contains(tries.String(), "its records could not be read 10 times: the plan is missing") {
			t.Errorf("%s: %s", name, tries.String())
		}
	}
}

func TestPlannerRestsAfterThreeFailures(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var tries record.PlanTries
	for range record.MaxPlanTries {
		if tries.Rests(now, record.PlanRest) {
			t.Error("it rests before the last failure")
		}
		tries.Fail("no memory", now)
	}
	if !tries.Rests(now.Add(59*time.Minute), record.PlanRest) || tries.Rests(now.Add(time.Hour), record.PlanRest) {
		t.Errorf("%+v", tries)
	}
}
