package attempt

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Member is a task of a gang as it is now.
type Member struct {
	Losing
	Bought bool // there is a cluster
}

// GangOf loads the tasks of a task's gang that have not succeeded, with what they hold.
func GangOf(u book.Reader, job record.Job, index int) ([]Member, error) {
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	return membersOf(u, job, spec.Gang(index))
}

// JoiningOf loads the tasks that join a gang and have not succeeded, with what they hold: those of a task's role alone,
// or of all.
func JoiningOf(u book.Reader, job record.Job, index int, ofRole bool) ([]Member, error) {
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	joining := spec.Joining(spec.Tasks[index].Gang)
	return membersOf(u, job, slices.DeleteFunc(joining, func(i int) bool { return ofRole && spec.Lead(i) != index }))
}

func membersOf(u book.Reader, job record.Job, tasks []int) (out []Member, err error) {
	var keys []record.Key
	for _, i := range tasks {
		keys = append(keys, record.TaskKey(job.ID, i))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for _, i := range tasks {
		m := Member{Losing: Losing{Job: job}}
		if m.Task, _, err = book.Get[record.Task](u, record.TaskKey(job.ID, i)); err != nil {
			return nil, err
		}
		if m.Task.State == record.TaskSucceeded {
			continue
		}
		m.Task.Job, m.Task.Index = job.ID, i // it may not have been announced yet
		if m.Task.Attempt > 0 {
			if m.Cluster, m.Bought,
				err = book.Get[record.Cluster](u,
				record.ClusterKey(record.ClusterID(job.ID, i, m.Task.Attempt))); err != nil {
				return nil, err
			}
			if m.Attempt, _,
				err = book.Get[record.Attempt](u, record.AttemptKey(job.ID, i, m.Task.Attempt)); err != nil {
				return nil, err
			}
			m.Cluster.Tell(&m.Attempt)
		}
		out = append(out, m)
	}
	return out, nil
}

// DecideRunGang tells all of a gang to run, or none of it. All are written: if one is lost meanwhile nothing is
// committed.
func DecideRunGang(members []Member, now time.Time) (d record.Decision) {
	for _, m := range members {
		if !m.Bought || m.Task.State != record.TaskLaunching || m.Cluster.State != record.ClusterUp ||
			m.Cluster.Command != "" || m.Cluster.Outcome != "" {
			return record.Decision{}
		}
		run := DecideRun(m.Cluster, now)
		d.Writes = append(d.Writes, run.Writes...)
	}
	return d
}

// DecideFollow has a task of a broken gang give back what it holds: at once if it has not begun, else when it has saved
// its work.
func DecideFollow(m Member, reason string, cfg record.Config, now time.Time) (d record.Decision) {
	switch {
	case m.Task.State == record.TaskAdmitted && !m.Bought && m.Attempt.Outcome == "":
		st := Buying{Job: m.Job, task: m.Task, Attempt: m.Attempt}
		d = decideUnbought(&st, record.OutcomeMoved, reason, now)
		rejoin(&d, m.Job, m.Task, reason)
	case !m.Bought || m.Cluster.Outcome != "" || m.Cluster.State == record.ClusterDoomed ||
		m.Cluster.State == record.ClusterReleasing:
	case m.Cluster.Command != "":
		d = DecideLeave(m.Cluster, record.LeaveGang, reason, cfg.Overhead, now)
	default:
		m.Cluster.Leaving = record.LeaveGang
		d = DecideLost(m.Losing, record.OutcomeMoved, reason, now)
	}
	return d
}

// DecideComplete ends a task of a gang whose chief has succeeded: its work is done, wherever it stands.
func DecideComplete(m Member, now time.Time) (d record.Decision) {
	cluster := ""
	switch {
	case m.Task.State == record.TaskQueued:
		d.Del(record.WaitKey(m.Job.Queue, record.WaitingOf(m.Job, m.Task)))
	case m.Task.State == record.TaskAdmitted && !m.Bought && m.Attempt.Outcome == "":
		st := Buying{Job: m.Job, task: m.Task, Attempt: m.Attempt}
		d = decideUnbought(&st, record.OutcomeMoved, "the work of its gang is done", now)
	case m.Bought && m.Cluster.Outcome == "":
		if m.Cluster.Running.IsZero() {
			m.Cluster.Running = now
		}
		m.Cluster.Outcome, m.Cluster.Ended, cluster = record.OutcomeSucceeded, now, m.Cluster.ID
		d.Put(record.ClusterKey(m.Cluster.ID), m.Cluster)
	}
	if m.Task.StartedAt.IsZero() {
		m.Task.StartedAt = now
	}
	m.Task.State, m.Task.EndedAt, m.Task.Progress = record.TaskSucceeded, now, 1
	d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
	d.Emit(events.TaskSucceeded{Job: m.Job.ID, Task: m.Task.Index, Attempt: m.Task.Attempt, Cluster: cluster})
	return d
}
