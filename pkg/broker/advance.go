package broker

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// announceMost bounds the tasks one transaction announces; the rest follow by dag.advance.
const announceMost = 30

// advance finds the tasks whose parents have all succeeded, and ends jobs. It alone writes
// Progress.
func (b *Broker) advance(u *unit.Unit, data events.Data) error {
	job, found, err := book.Get[record.Job](u, record.JobKey(data.Group()))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	progress, _, err := book.Get[record.Progress](u, record.ProgressKey(job.ID))
	if err != nil {
		return err
	}
	st := advancing{job: job, spec: spec, progress: progress}
	switch e := data.(type) {
	case events.DAGPlanned:
		return u.Apply(decideBegin(st))
	case events.DAGAdvance:
		return u.Apply(decideAnnounce(st, e.From))
	case events.TaskSucceeded:
		d := decideSucceeded(st, e.Task)
		if err := attempt.DecideTooLate(u, b.Config, st.job, spec, &d, u.Now); err != nil {
			return err
		}
		return u.Apply(d)
	case events.TaskFailed:
		task, _, err := book.Get[record.Task](u, record.TaskKey(e.Job, e.Task))
		if err != nil {
			return err
		}
		return u.Apply(decideFailed(st, task, e))
	case events.DAGCancel:
		return u.Apply(decideCancelled(job, e.Reason))
	case events.DAGSettled:
		d := decideFinished(job, spec, e, u.Now)
		if len(d.Writes) > 0 {
			if err := history.Add(u, job.ID, spec, &d); err != nil {
				return err
			}
		}
		return u.Apply(d)
	default:
		return unexpected(events.FnAdvance, data)
	}
}

// advancing is what advance decides on.
type advancing struct {
	job      record.Job
	spec     *dag.Job
	progress record.Progress // its own copy
}

// decideBegin sets a planned job running and announces the tasks that wait for nothing.
func decideBegin(st advancing) record.Decision {
	if st.job.State != record.JobPlanning {
		return record.Decision{} // a replan: what was ready stays so
	}
	st.job.State, st.job.Started, st.job.Reason = record.JobRunning, true, ""
	d := decideAnnounce(st, 0)
	d.PutJob(st.job)
	return d
}

// decideAnnounce announces waiting tasks from an index on whose parents are all done. Those of a job that waits for
// a plan are announced all the same, as decideSucceeded does: nobody asks again for those behind the index.
func decideAnnounce(st advancing, from int) record.Decision {
	if st.job.State != record.JobRunning && (st.job.State != record.JobWaiting || !st.job.Started) {
		return record.Decision{}
	}
	var rest []int32
	for i := from; i < st.job.Tasks; i++ {
		rest = append(rest, int32(i)) //nolint:gosec // a task of the job
	}
	return announce(st, rest)
}

// announce marks and emits the ready ones of tasks, in order, as far as one transaction holds.
func announce(st advancing, tasks []int32) (d record.Decision) {
	g, phases := st.spec.Graph(), st.progress.Phases
	undone := func(parent int32) bool { return phases[parent] != record.PhaseSucceeded }
	for _, i := range tasks {
		if phases[i] != record.PhaseWaiting || slices.ContainsFunc(g.Parents(int(i)), undone) {
			continue
		}
		if len(d.Emits) == announceMost {
			d.Emit(events.DAGAdvance{Job: st.job.ID, From: int(i)})
			break
		}
		phases[i] = record.PhaseReady
		d.Emit(events.TaskReady{Job: st.job.ID, Task: int(i), Queue: st.job.Queue, Try: 1})
	}
	d.Put(record.ProgressKey(st.job.ID), st.progress)
	return d
}

// decideSucceeded marks a task done, announces the children that waited for it alone, and ends the job
// with its last task.
func decideSucceeded(st advancing, task int) (d record.Decision) {
	if task < 0 || task >= st.job.Tasks || st.progress.Phases[task] == record.PhaseSucceeded {
		return d
	}
	st.progress.Phases[task] = record.PhaseSucceeded
	st.progress.Succeeded++
	if st.job.State == record.JobRunning || st.job.State == record.JobWaiting {
		if st.progress.Succeeded < st.job.Tasks {
			return announce(st, st.spec.Graph().Children(task))
		}
		d = decideEnding(st.job, record.JobSucceeded, "")
	}
	d.Put(record.ProgressKey(st.job.ID), st.progress)
	return d
}

// decideFailed announces a task again while it has retries left, and otherwise fails the job.
func decideFailed(st advancing, task record.Task, e events.TaskFailed) (d record.Decision) {
	if st.job.State != record.JobRunning && st.job.State != record.JobWaiting || e.Task < 0 || e.Task >= st.job.Tasks ||
		st.progress.Phases[e.Task] != record.PhaseReady {
		return d
	}
	spec := &st.spec.Tasks[e.Task]
	if !e.Final && task.Try <= spec.RetriesAfter(e.ExitCode) {
		d.Emit(events.TaskReady{Job: st.job.ID, Task: e.Task, Queue: st.job.Queue, Try: task.Try + 1})
		return d
	}
	st.progress.Phases[e.Task] = record.PhaseFailed
	reason := "task " + spec.Name
	switch {
	case e.Final:
		reason += " cannot run"
	case e.ExitCode == 0: // nothing of its own ran to an end
		reason += " failed"
	default:
		reason += fmt.Sprintf(" failed with exit code %d", e.ExitCode)
	}
	if e.Message != "" {
		reason += ": " + e.Message
	}
	d = decideEnding(st.job, record.JobFailed, reason)
	d.Put(record.ProgressKey(st.job.ID), st.progress)
	return d
}

// decideCancelled ends a job because somebody wants it to. One that ends already gives back what is kept of it.
func decideCancelled(job record.Job, reason string) (d record.Decision) {
	if job.State == record.JobEnding {
		d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(record.JobCancelled)})
		return d
	}
	return decideEnding(job, record.JobCancelled, reason)
}

// decideEnding starts the end of a job: nothing new starts, its machines are freed, then it is settled.
func decideEnding(job record.Job, outcome record.JobState, reason string) (d record.Decision) {
	if job.State == record.JobEnding || job.State.Over() {
		return d
	}
	job.State, job.Outcome, job.Reason = record.JobEnding, outcome, reason
	d.PutJob(job)
	d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(outcome)})
	return d
}

// decideFinished closes a job whose machines are all gone and paid for. Nobody needs its secrets any more.
func decideFinished(job record.Job, spec *dag.Job, e events.DAGSettled, now time.Time) (d record.Decision) {
	if job.State != record.JobEnding {
		return d
	}
	job.State, job.Finished, job.USD = job.Outcome, now, e.USD
	if !job.Deadline.IsZero() && job.Finished.After(job.Deadline) {
		job.Late = true
	}
	d.PutJob(job)
	d.Del(record.ActiveKey(job.ID))
	if len(spec.SecretNames()) > 0 {
		d.Del(record.SecretsKey(job.ID))
	}
	d.Emit(events.DAGFinished{
		Job: job.ID, Name: job.Name, Outcome: string(job.Outcome), Reason: job.Reason,
		USD: e.USD, Hours: record.Hours(job.Finished.Sub(job.Submitted)),
	})
	return d
}
