package tes

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// StateOf returns the TES state of a job's task.
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
	case task.State == string(record.TaskFailed): // the reason comes when the job has finished, which is next
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

// failed returns, by the reason of the job's end, ExecutorError if a command failed and SystemError otherwise.
func failed(reason string) State {
	own, _ := strings.CutPrefix(reason, "task "+TaskName+" failed with exit code ")
	if own == reason || own == systemFailure || strings.HasPrefix(own, systemFailure+":") {
		return SystemError
	}
	return ExecutorError
}

// systemFailure is the script's exit code if the script itself failed, not an executor.
const systemFailure = "125"

// framing matches the lines with which the script of a task separates the logs of its executors and lists its outputs.
var framing = regexp.MustCompile(`\s*== tes (executor( \S+){6}|output \d+ \d+( \S+)?)`)

// SystemLog returns a reason for the system logs of a task. The end of the task's output, which the reason may have,
// has lines of the script that are of no use to a client.
func SystemLog(reason string) string {
	return strings.TrimRight(framing.ReplaceAllString(reason, ""), " \n:;")
}

// Explain adds the reason of a failed task to the system logs of its last attempt. If no machine was available, there
// is no attempt. The task then gets a log with only the reason, because clients read nothing else. Logs are in the
// order of attempts, except for Nextflow, which gets the last log first. Nextflow reads the exit code only from the
// first log; if a machine was preempted once, it would treat the task as failed.
func (t *Task) Explain(reason string) {
	reason = SystemLog(reason)
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

// Show returns the part of a task that a view includes.
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
