package broker

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// announceMost bounds the tasks one transaction announces; the rest follow by dag.advance.
const announceMost = 30

// advance finds the tasks whose parents have all succeeded, and ends jobs. It alone writes
// Progress.
func (b *Broker) advance(u *unit, data events.Data) error {
	job, found, err := get[Job](u, jobKey(data.Group()))
	if err != nil || !found {
		return orSkip(err)
	}
	spec, err := u.spec(job)
	if err != nil {
		return err
	}
	progress, _, err := get[Progress](u, progressKey(job.ID))
	if err != nil {
		return err
	}
	st := advancing{job: job, spec: spec, progress: progress}
	switch e := data.(type) {
	case events.DAGPlanned:
		return u.apply(decideBegin(st))
	case events.DAGAdvance:
		return u.apply(decideAnnounce(st, e.From))
	case events.TaskSucceeded:
		d := decideSucceeded(st, e.Task)
		if err := decideTooLate(u, b.cfg, st.job, spec, &d, u.now); err != nil {
			return err
		}
		return u.apply(d)
	case events.TaskFailed:
		task, _, err := get[Task](u, taskKey(e.Job, e.Task))
		if err != nil {
			return err
		}
		return u.apply(decideFailed(st, task, e))
	case events.DAGCancel:
		return u.apply(decideEnding(job, JobCancelled, e.Reason))
	case events.DAGSettled:
		return u.apply(decideFinished(job, e, u.now))
	default:
		return unexpected(events.FnAdvance, data)
	}
}

// orSkip is err, or errSkip when there is none: the record that an event concerns is gone.
func orSkip(err error) error {
	if err != nil {
		return err
	}
	return errSkip
}

// advancing is what advance decides on.
type advancing struct {
	job      Job
	spec     *dag.Job
	progress Progress // its own copy
}

// decideBegin sets a planned job running and announces the tasks that wait for nothing.
func decideBegin(st advancing) Decision {
	if st.job.State != JobPlanning {
		return Decision{} // a replan: what was ready stays so
	}
	st.job.State, st.job.Started, st.job.Reason = JobRunning, true, ""
	d := decideAnnounce(st, 0)
	d.put(jobKey(st.job.ID), st.job)
	return d
}

// decideAnnounce announces waiting tasks from an index on whose parents are all done. Those of a job that waits for
// a plan are announced all the same, as decideSucceeded does: nobody asks again for those behind the index.
func decideAnnounce(st advancing, from int) Decision {
	if st.job.State != JobRunning && (st.job.State != JobWaiting || !st.job.Started) {
		return Decision{}
	}
	return announce(st, func(yield func(int) bool) {
		for i := from; i < st.job.Tasks; i++ {
			if !yield(i) {
				return
			}
		}
	})
}

// announce marks and emits the ready ones of tasks, in order, as far as one transaction holds.
func announce(st advancing, tasks func(yield func(int) bool)) Decision {
	var d Decision
	count, next := 0, -1
	g := st.spec.Graph()
	for i := range tasks {
		if st.progress.Phases[i] != PhaseWaiting || !allSucceeded(st.progress.Phases, g.Parents(i)) {
			continue
		}
		if count == announceMost {
			next = i
			break
		}
		count++
		st.progress.Phases[i] = PhaseReady
		d.emit(events.TaskReady{Job: st.job.ID, Task: i, Queue: st.job.Queue, Try: 1})
	}
	if next >= 0 {
		d.emit(events.DAGAdvance{Job: st.job.ID, From: next})
	}
	d.put(progressKey(st.job.ID), st.progress)
	return d
}

func allSucceeded(progress []byte, tasks []int32) bool {
	for _, t := range tasks {
		if progress[t] != PhaseSucceeded {
			return false
		}
	}
	return true
}

// decideSucceeded marks a task done, announces the children that waited for it alone, and ends the job
// with its last task.
func decideSucceeded(st advancing, task int) Decision {
	if task < 0 || task >= st.job.Tasks || st.progress.Phases[task] == PhaseSucceeded {
		return Decision{}
	}
	st.progress.Phases[task] = PhaseSucceeded
	st.progress.Succeeded++
	if st.job.State == JobRunning || st.job.State == JobWaiting {
		if st.progress.Succeeded == st.job.Tasks {
			d := decideEnding(st.job, JobSucceeded, "")
			d.put(progressKey(st.job.ID), st.progress)
			return d
		}
		children := st.spec.Graph().Children(task)
		return announce(st, func(yield func(int) bool) {
			for _, c := range children {
				if !yield(int(c)) {
					return
				}
			}
		})
	}
	var d Decision
	d.put(progressKey(st.job.ID), st.progress)
	return d
}

// decideFailed announces a task again while it has retries left, and otherwise fails the job.
func decideFailed(st advancing, task Task, e events.TaskFailed) Decision {
	if st.job.State != JobRunning && st.job.State != JobWaiting || e.Task < 0 || e.Task >= st.job.Tasks || st.progress.Phases[e.Task] != PhaseReady {
		return Decision{}
	}
	name := st.spec.Tasks[e.Task].Name
	if !e.Final && task.Try <= st.spec.Tasks[e.Task].Retries {
		var d Decision
		d.emit(events.TaskReady{Job: st.job.ID, Task: e.Task, Queue: st.job.Queue, Try: task.Try + 1})
		return d
	}
	st.progress.Phases[e.Task] = PhaseFailed
	reason := fmt.Sprintf("task %s failed with exit code %d", name, e.ExitCode)
	if e.Final {
		reason = "task " + name + " cannot run"
	}
	if e.Message != "" {
		reason += ": " + e.Message
	}
	d := decideEnding(st.job, JobFailed, reason)
	d.put(progressKey(st.job.ID), st.progress)
	return d
}

// decideEnding starts the end of a job: nothing new starts, its machines are freed, then it is settled.
func decideEnding(job Job, outcome JobState, reason string) Decision {
	if job.State == JobEnding || job.State.Over() {
		return Decision{}
	}
	job.State, job.Outcome, job.Reason = JobEnding, outcome, reason
	var d Decision
	d.put(jobKey(job.ID), job)
	d.emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(outcome)})
	return d
}

// decideFinished closes a job whose machines are all gone and paid for.
func decideFinished(job Job, e events.DAGSettled, now time.Time) Decision {
	if job.State != JobEnding {
		return Decision{}
	}
	job.State, job.Finished, job.USD = job.Outcome, now, e.USD
	if !job.Deadline.IsZero() && job.Finished.After(job.Deadline) {
		job.Late = true
	}
	var d Decision
	d.put(jobKey(job.ID), job)
	d.del(activeKey(job.ID))
	d.emit(events.DAGFinished{
		Job: job.ID, Name: job.Name, Outcome: string(job.Outcome), Reason: job.Reason,
		USD: e.USD, Hours: hours(job.Finished.Sub(job.Submitted)),
	})
	return d
}
