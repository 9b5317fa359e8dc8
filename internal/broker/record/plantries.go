package record

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
)

// MaxPlanTries is how often in a row the planner may fail for a job before the job fails.
const MaxPlanTries = 3

// PlanTries counts the failures of the planner for a job since its last plan. A try is recorded before it begins, so
// that it counts even if the process ends during it, because it ran out of memory or time.
type PlanTries struct {
	Failed int    `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"` // of the last failure
	// Began is when the open try began; zero if none is open.
	Began time.Time `json:"began,omitzero"`
}

// Reasons of tries that found no end: OutOfTime if the planner was stopped, unfinished if its process has ended.
const (
	OutOfTime  = "it ran out of time"
	unfinished = "it did not finish, because it ran out of memory or time"
)

// Begin opens a try at now. An open try that began more than within ago counts as failed. A younger one may still run
// elsewhere: it stays open. The result reports whether anything has changed.
func (t *PlanTries) Begin(now time.Time, within time.Duration) bool {
	if !t.Began.IsZero() && now.Sub(t.Began) <= within {
		return false
	}
	if !t.Began.IsZero() {
		t.Fail(unfinished)
	}
	t.Began = now
	return true
}

// Fail closes the open try as failed.
func (t *PlanTries) Fail(reason string) {
	t.Failed, t.Reason, t.Began = t.Failed+1, reason, time.Time{}
}

// Spent reports whether the planner has failed too often to be tried again.
func (t *PlanTries) Spent() bool { return t.Failed >= MaxPlanTries }

// String describes the failures for users.
func (t *PlanTries) String() string {
	return fmt.Sprintf("the planner has failed %s: %s", readable.Times(t.Failed), t.Reason)
}

// Help returns advice if the planner ran out of memory or time; "" if it failed for another reason.
func (t *PlanTries) Help() string {
	if t.Reason != OutOfTime && t.Reason != unfinished {
		return ""
	}
	return "submit the job as several smaller jobs, or give the planner more memory, and with it more processor time " +
		"(`tradewind deploy aws --planner-memory MIB`, `tradewind deploy kubernetes --memory SIZE`)"
}
