package tes_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/tes"
)

// TestStates has a state for where a job and its task are.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		job    record.JobState
		task   string
		reason string
		want   tes.State
	}{
		{record.JobPlanning, "waiting", "", tes.Queued},
		{record.JobRunning, "queued", "", tes.Queued},
		{record.JobRunning, "launching", "", tes.Initializing},
		{record.JobRunning, "running", "", tes.Running},
		{record.JobRunning, "failed", "", tes.Running},
		{record.JobEnding, "succeeded", "", tes.Complete},
		{record.JobEnding, "failed", "task task failed with exit code 3: no such file", tes.ExecutorError},
		{record.JobFailed, "failed", "task task failed with exit code 3", tes.ExecutorError},
		{record.JobFailed, "failed", "task task failed with exit code 125: disk full", tes.SystemError},
		{record.JobFailed, "failed", "task task failed: stage: cannot pull ubuntu", tes.SystemError},
		{record.JobFailed, "cancelled", "no place is left", tes.SystemError},
		{record.JobEnding, "cancelled", "cancelled by user", tes.Canceling},
		{record.JobCancelled, "cancelled", "cancelled by user", tes.Canceled},
	} {
		d := &view.JobDetail{TaskList: []view.TaskView{{State: c.task}}}
		d.State, d.Reason = c.job, c.reason
		if got := tes.StateOf(d); got != c.want {
			t.Errorf("%s, %s, %q: %s, not %s", c.job, c.task, c.reason, got, c.want)
		}
	}
}
