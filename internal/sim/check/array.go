package check

import (
	"bytes"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// checkParallel checks that at most the permitted number of members of an array have machines, or get them, at the
// same time.
func (c *Checker) checkParallel(s *Job, task int) {
	if s.user == nil {
		return
	}
	a, _ := s.user.Spec.ArrayOf(task)
	if a == nil || a.MaxParallel == 0 {
		return
	}
	running := 0
	for i := a.First; i < a.First+a.Size; i++ {
		switch s.Tasks[i].State {
		case record.TaskAdmitted, record.TaskLaunching, record.TaskRunning:
			running++
		case record.TaskQueued, record.TaskSucceeded, record.TaskFailed:
		}
	}
	if running > a.MaxParallel {
		c.Violatef(InvParallel, "%d members of array %s of %s run, of at most %d", running, a.Name, s.ID, a.MaxParallel)
	}
	if running == a.MaxParallel {
		c.Count("arrays with as many members as may run")
	}
}

// excused reports whether tasks that wait for a whole array may ignore that one of its tasks failed, or never ran
// because of a failure.
func (s *Job) excused(task int) bool {
	switch s.progress.Phases[task] {
	case record.PhaseExcused:
		return true
	case record.PhaseFailed:
		a, _ := s.user.Spec.ArrayOf(task)
		return a != nil && s.failures(a) <= a.AllowFailures
	default:
		return false
	}
}

// failures counts the members of an array that have failed for good.
func (s *Job) failures(a *dag.Array) int {
	return bytes.Count(s.progress.Phases[a.First:a.First+a.Size], []byte{record.PhaseFailed})
}

// holds reports whether an edge still holds its task back.
func (s *Job) holds(e *dag.Edge) bool {
	return s.progress.Phases[e.From] != record.PhaseSucceeded && (!e.All || !s.excused(e.From))
}

// skipped checks a task that will not run because of a failure.
func (c *Checker) skipped(s *Job, task int) {
	for _, k := range s.graph.In(task) {
		e := &s.user.Spec.Edges[k]
		if record.NeverRuns(s.progress.Phases[e.From]) && s.holds(e) {
			return
		}
	}
	c.Violatef(InvCounts, "task %d of %s is skipped, but none of its parents has failed", task, s.ID)
}
