package check

import (
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// chunked reports whether a task may run in the attempt of another member of its array. Such a task may have no
// attempt with a lower number.
func (s *Job) chunked(task int) bool {
	if s.user == nil || task >= len(s.user.Spec.Tasks) || s.user.Spec.Tasks[task].ShareGroup == 0 {
		return false
	}
	a, _ := s.user.Spec.ArrayOf(task)
	return a != nil
}

// chunkAssigned checks the members of a chunk that was assigned to a machine by a call that started in a step. None
// of them may have succeeded before that step.
func (c *Checker) chunkAssigned(s *Job, m *Machine, a *wire.Assignment, began int) {
	for i := range a.Chunk {
		task := s.user.ByTask[a.Chunk[i].Task]
		if step, ok := s.finished[task]; ok && step < began {
			c.Violatef(InvChunk, "%s of %s had succeeded but is assigned to %s", a.Chunk[i].Task, s.ID, m.ID)
		}
	}
}

// chunkTask checks a task that gets its first record at its end: it ran in the attempt of another member of its array.
func (c *Checker) chunkTask(s *Job, old, t record.Task) {
	if old.State != "" || t.State != record.TaskSucceeded || t.Attempt == 0 || s.isWorker(t.Index) {
		return // the work of a gang may be done before one of its tasks had an attempt
	}
	if !s.chunked(t.Index) {
		c.Violatef(InvChunk, "task %d of %s has succeeded without an attempt", t.Index, s.ID)
	}
	if !c.outputs[c.cfg.At(t.Output)] {
		c.Violatef(InvChunk, "task %d of %s has succeeded, but its outputs at %q do not exist", t.Index, s.ID, t.Output)
	}
	c.Count("members that succeeded in the attempt of another")
}

// chunkAttempt checks an attempt that gets its first record at its end. Such an attempt holds no machines itself.
func (c *Checker) chunkAttempt(s *Job, of *attemptState) {
	if !s.chunked(of.task) || of.USD != 0 || of.ReservedUSD != 0 {
		c.Violatef(InvChunk, "attempt %d of task %d of %s has ended before it began", of.attempt, of.task, s.ID)
	}
	of.settled = true
	s.order = append(s.order, of)
}
