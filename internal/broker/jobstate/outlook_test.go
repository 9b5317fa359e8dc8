package jobstate_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// array returns a running job with an array of four members. Two may run at a time, and one may fail.
func array(phases string) jobstate.Advancing {
	spec := &dag.Job{Tasks: make([]dag.Task, 4), Arrays: []dag.Array{
		{Name: "a", Size: 4, MaxParallel: 2, AllowFailures: 1}}}
	job := record.Job{ID: "j", State: apitypes.JobRunning, Started: true, Tasks: 4, Arrays: record.ArraysOf(spec)}
	return jobstate.Advancing{Job: job, Spec: spec, Progress: record.Progress{Phases: []byte(phases)}}
}

// announced returns the tasks that a decision announces.
func announced(d record.Decision) (tasks []int) {
	for _, e := range d.Emits {
		if ready, ok := e.(events.TaskReady); ok {
			tasks = append(tasks, ready.Task)
		}
	}
	return tasks
}

func TestEndOfMemberAnnouncesTheNext(t *testing.T) {
	if got := announced(jobstate.DecideAnnounce(array("wwww"), 0)); len(got) != 2 {
		t.Errorf("%v are announced, of an array of which two run at the same time", got)
	}
	if got := announced(jobstate.DecideSucceeded(array("rrww"), events.TaskSucceeded{Task: 1})); len(got) != 1 || got[0] != 2 {
		t.Errorf("%v are announced, not the third member", got)
	}
}

// In an array that shares machines, the announced members are those that fit on the planned workers, and a quarter
// more.
func TestMembersThatDoNotFitOnPlannedWorkersAreNotAnnounced(t *testing.T) {
	st := array("wwww")
	st.Job.Arrays[0].MaxParallel, st.Slots = 0, []int{2}
	if got := announced(jobstate.DecideAnnounce(st, 0)); len(got) != 3 {
		t.Errorf("%v are announced, of which two fit on the workers", got)
	}
	st = array("rrrw")
	st.Job.Arrays[0].MaxParallel, st.Slots = 0, []int{2}
	if got := announced(jobstate.DecideBegin(st)); len(got) != 0 {
		t.Errorf("%v are announced after a replan without more workers", got)
	}
	st.Slots[0] = 4
	if got := announced(jobstate.DecideBegin(st)); len(got) != 1 || got[0] != 3 {
		t.Errorf("%v are announced after a replan with more workers", got)
	}
	st = array("rrrw")
	st.Job.Arrays[0].MaxParallel, st.Slots = 0, []int{2}
	if got := announced(jobstate.DecideSucceeded(st, events.TaskSucceeded{Task: 1})); len(got) != 1 || got[0] != 3 {
		t.Errorf("%v are announced, not the last member", got)
	}
}

func TestMemberThatMayFailDoesNotEndTheJob(t *testing.T) {
	failed := events.TaskFailed{Job: "j", Task: 0, ExitCode: 1, Final: true}
	d := jobstate.DecideFailed(array("rrww"), record.Task{State: record.TaskFailed}, failed)
	if got := announced(d); len(got) != 1 || got[0] != 2 {
		t.Errorf("%v are announced, not the third member", got)
	}
	d = jobstate.DecideFailed(array("rfww"), record.Task{State: record.TaskFailed}, failed)
	if got := announced(d); len(got) > 0 || len(d.Emits) != 1 {
		t.Errorf("after a second failure it emits %v", d.Emits)
	}
}

// TestFailureOfMemberThatSharesMachines: a member of an array fails in a job that also has tasks for its workers.
func TestFailureOfMemberThatSharesMachines(t *testing.T) {
	st := array("rrww")
	st.Spec.Tasks = append(st.Spec.Tasks, dag.Task{Worker: &dag.Worker{}})
	d := jobstate.DecideFailed(st, record.Task{State: record.TaskFailed, Try: 1},
		events.TaskFailed{Job: "j", Task: 0, ExitCode: 1})
	if got := announced(d); len(got) != 1 || got[0] != 2 {
		t.Errorf("%v are announced, not the third member", got)
	}
}

func TestUsedUpBudgetEndsTheJobOfAnArrayThatAllowsFailures(t *testing.T) {
	d := jobstate.DecideFailed(array("rrww"), record.Task{State: record.TaskRunning},
		events.TaskFailed{Job: "j", Task: 0, ExitCode: -1, Final: true, Message: "more than the budget"})
	if _, ends := d.Emits[0].(events.DAGEnding); !ends || len(d.Emits) != 1 {
		t.Errorf("it emits %v", d.Emits)
	}
}
