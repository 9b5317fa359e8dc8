package tes

import (
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// StateOf is the state of a job's task as TES calls it.
func StateOf(d *apitypes.JobDetail) State {
	if len(d.TaskList) == 0 {
		return Unknown
	}
	task := d.TaskList[0]
	switch {
	case task.State == string(record.TaskSucceeded):
		return Complete
	case d.State == apitypes.JobCancelled:
		return Canceled
	case d.State == apitypes.JobFailed, d.State == apitypes.JobEnding && task.State == string(record.TaskFailed):
		return failed(d.Reason)
	case task.State == string(record.TaskFailed): // why is said with the job's end, which comes next
		return Running
	case d.State == apitypes.JobEnding:
		return Canceling
	}
	switch task.State {
	case string(record.TaskRunning):
		return Running
	case string(record.TaskAdmitted), string(record.TaskLaunching):
		return Initializing
	default:
		return Queued
	}
}

// failed tells a command that failed from all that is not its own doing, by the reason of the job's end.
func failed(reason string) State {
	own, _ := strings.CutPrefix(reason, "task "+TaskName+" failed with exit code ")
	if own == reason || own == systemFailure || strings.HasPrefix(own, systemFailure+":") {
		return SystemError
	}
	return ExecutorError
}

// systemFailure is the exit code of the script where not an executor but its own part failed.
const systemFailure = "125"

// Explain puts why a task failed that is over among what the system says of its last attempt. One for which no machine
// could be had has no attempt: it gets a log of that alone, as there is no other place that clients look at. Logs come
// in the order of the attempts, but for Nextflow the last comes first: it reads the exit code of the first log alone,
// and would take a task for failed whose machine was taken once.
func (t *Task) Explain(reason string) {
	if (t.State == SystemError || t.State == ExecutorError) && reason != "" {
		if len(t.Logs) == 0 {
			t.Logs = []TaskLog{{Logs: []ExecutorLog{}, Outputs: []OutputFileLog{}}}
		}
		last := &t.Logs[len(t.Logs)-1]
		if !slices.Contains(last.SystemLogs, reason) {
			last.SystemLogs = append(last.SystemLogs, reason)
		}
	}
	if t.ofNextflow() {
		slices.Reverse(t.Logs)
	}
}

// Show is what a view has of a task.
func (t Task) Show(v View) Task {
	switch v {
	case Full:
		return t
	case Basic:
		t.Inputs = append([]Input(nil), t.Inputs...)
		for i := range t.Inputs {
			t.Inputs[i].Content = ""
		}
		t.Logs = append([]TaskLog(nil), t.Logs...)
		for i := range t.Logs {
			t.Logs[i].SystemLogs = nil
			t.Logs[i].Logs = append([]ExecutorLog{}, t.Logs[i].Logs...)
			for j := range t.Logs[i].Logs {
				t.Logs[i].Logs[j].Stdout, t.Logs[i].Logs[j].Stderr = "", ""
			}
		}
		return t
	default:
		return Task{ID: t.ID, State: t.State}
	}
}
