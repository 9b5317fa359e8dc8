package record

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
)

// MaxPlanTries is the number of failures of the planner in a row after which a job fails.
const MaxPlanTries = 3

// PlanTries counts the failures of the planner for a job since its last plan. A try is recorded before it begins. So
// it counts even if the process ends during it because it has no memory or time left.
type PlanTries struct {
	Failed int    `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"` // of the last failure
	// Began is the start of the open try; zero if none is open.
	Began time.Time `json:"began,omitzero"`
	// FailedAt is the time of the last failure.
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Unread counts the tries since UnreadSince in which the job's records could not be loaded.
	Unread      int       `json:"unread,omitempty"`
	UnreadSince time.Time `json:"unreadSince,omitzero"`
}

const (
	// PlanRest is the time for which a job that holds machines keeps its plan after MaxPlanTries failures. Then one
	// more try is made.
	PlanRest = time.Hour
	// MaxUnread is the number of times that the records of a job may be unreadable before it fails.
	MaxUnread = 10
	// UnreadFor is the minimum time for which they must be unreadable. A shorter outage of the store fails no job.
	UnreadFor = time.Hour
)

// Reasons of tries without a result: OutOfTime if the planner was stopped, unfinished if its process has ended.
const (
	OutOfTime  = "it ran out of time"
	unfinished = "it did not finish, because it ran out of memory or time"
)

// Begin opens a try at now. An open try that began more than within ago counts as failed. A younger open try may
// still run in another process, and stays open. Begin reports whether anything has changed.
func (t *PlanTries) Begin(now time.Time, within time.Duration) bool {
	if !t.Began.IsZero() && now.Sub(t.Began) <= within {
		return false
	}
	if !t.Began.IsZero() {
		t.Fail(unfinished, now)
	}
	t.Began = now
	return true
}

// Fail closes the open try as failed at now.
func (t *PlanTries) Fail(reason string, now time.Time) {
	t.Failed, t.Reason, t.Began, t.FailedAt = t.Failed+1, reason, time.Time{}, now
}

// CannotLoad closes the open try, because the job's records could not be loaded. This counts as a failure of the
// planner only after MaxUnread tries over at least the given time.
func (t *PlanTries) CannotLoad(reason string, now time.Time, least time.Duration) {
	t.Began, t.Unread = time.Time{}, t.Unread+1
	if t.UnreadSince.IsZero() {
		t.UnreadSince = now
	}
	if t.Unread >= MaxUnread && now.Sub(t.UnreadSince) >= least {
		t.Failed, t.Reason, t.FailedAt = MaxPlanTries, reason, now
	}
}

// Rests reports whether a job that holds machines keeps running with its plan without another try, because the
// planner has failed too often within the given time.
func (t *PlanTries) Rests(now time.Time, rest time.Duration) bool {
	return t.Spent() && now.Sub(t.FailedAt) < rest
}

// Spent reports whether the planner has failed too often to be tried again.
func (t *PlanTries) Spent() bool { return t.Failed >= MaxPlanTries }

// String returns the failures as text for users.
func (t *PlanTries) String() string {
	if t.Spent() && t.Unread >= MaxUnread {
		return fmt.Sprintf("its records could not be read %s: %s", readable.Times(t.Unread), t.Reason)
	}
	return fmt.Sprintf("the planner has failed %s: %s", readable.Times(t.Failed), t.Reason)
}

// Help returns advice if the planner had too little memory or time, and "" if it failed for another reason.
func (t *PlanTries) Help() string {
	if t.Reason != OutOfTime && t.Reason != unfinished {
		return ""
	}
	return "submit the job as several smaller jobs, or give the planner more memory, and with it more processor time " +
		"(`tradewind deploy aws --planner-memory MIB`, `tradewind deploy kubernetes --memory SIZE`)"
}
