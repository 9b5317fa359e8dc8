package tes_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestStates checks the TES state of each combination of states of a job and its task.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		job    apitypes.JobState
		task   string
		reason string
		want   tes.State
	}{
		{apitypes.JobPlanning, "waiting", "", tes.Queued},
		{apitypes.JobRunning, "queued", "", tes.Queued},
		{apitypes.JobRunning, "launching", "", tes.Initializing},
		{apitypes.JobRunning, "running", "", tes.Running},
		{apitypes.JobRunning, "failed", "", tes.Running},
		{apitypes.JobEnding, "succeeded", "", tes.Complete},
		{apitypes.JobEnding, "failed", "task task failed with exit code 3: no such file", tes.ExecutorError},
		{apitypes.JobFailed, "failed", "task task failed with exit code 3", tes.ExecutorError},
		{apitypes.JobFailed, "failed", "task task failed with exit code 125: disk full", tes.SystemError},
		{apitypes.JobFailed, "failed", "task task failed: stage: cannot pull ubuntu", tes.SystemError},
		{apitypes.JobFailed, "cancelled", "no place is left", tes.SystemError},
		{apitypes.JobEnding, "cancelled", "cancelled by user", tes.Canceling},
		{apitypes.JobCancelled, "cancelled", "cancelled by user", tes.Canceled},
	} {
		d := &apitypes.JobDetail{TaskList: []apitypes.TaskView{{State: c.task}}}
		d.State, d.Reason = c.job, c.reason
		if got := tes.StateOf(d); got != c.want {
			t.Errorf("%s, %s, %q: %s, not %s", c.job, c.task, c.reason, got, c.want)
		}
	}
}
