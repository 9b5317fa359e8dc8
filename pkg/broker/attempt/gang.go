package attempt

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
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

// LeftBehind are those that had joined a gang of which a task was lost that has been admitted again since: what they
// joined is gone. Where others of the gang went on meanwhile, they are those of the task's role alone. It fails with
// ErrSkip where there are none.
func LeftBehind(u book.Reader, job record.Job, lost Member, gang []Member) ([]Member, error) {
	before := func(m Member) bool { return m.Bought && m.Attempt.Admitted.Before(lost.Attempt.Admitted) }
	joined, err := JoiningOf(u, job, lost.Task.Index, slices.ContainsFunc(gang, before))
	if joined = slices.DeleteFunc(joined, func(m Member) bool { return !before(m) }); err == nil && len(joined) == 0 {
		err = record.ErrSkip
	}
	return joined, err
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
				err = book.Get[apitypes.Attempt](u, record.AttemptKey(job.ID, i, m.Task.Attempt)); err != nil {
				return nil, err
			}
			m.Cluster.Tell(&m.Attempt)
		}
		out = append(out, m)
	}
	return out, nil
}

// runs says that a member runs, or has been told to, and is not about to end.
func (m *Member) runs() bool {
	return m.Bought && m.Cluster.State == record.ClusterUp && m.Cluster.Command == string(wire.Run) &&
		m.Cluster.Outcome == ""
}

// DecideRunGang tells all of a gang to run, or none of it. All are written: if one is lost meanwhile nothing is
// committed. Those that begin anew by themselves are told when all others run or are up as well, and the others hear of
// them by being told again. Where one waits for that, and none runs any more, the gang breaks: those that are up would
// wait for it for ever, and hold what it may need.
func DecideRunGang(members []Member, now time.Time) (d record.Decision) {
	if waits := stranded(members); waits != nil {
		d.Broken(*waits)
		return d
	}
	alone := slices.ContainsFunc(members, func(m Member) bool { return m.runs() })
	begins := false
	for _, m := range members {
		switch {
		case m.runs():
			m.Cluster.Run()
			d.Put(record.ClusterKey(m.Cluster.ID), m.Cluster)
			continue
		case !m.Bought || m.Task.State != record.TaskLaunching || m.Cluster.State != record.ClusterUp ||
			m.Cluster.Command != "" || m.Cluster.Outcome != "" || alone && !m.Task.Alone:
			return record.Decision{}
		}
		begins = true
		run := DecideRun(m.Cluster, now)
		d.Writes = append(d.Writes, run.Writes...)
	}
	if !begins {
		return record.Decision{}
	}
	return d
}

// stranded is a task of a gang that waits to begin anew by itself beside others of which none runs; nil where there is
// none.
func stranded(members []Member) *record.Task {
	if slices.ContainsFunc(members, func(m Member) bool { return m.runs() }) {
		return nil
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.Task.State == record.TaskQueued && m.Task.Alone })
	if i < 0 {
		return nil
	}
	return &members[i].Task
}

// RestartsAlone says whether a task of a gang that does not go on begins anew by itself, and which of the others says
// that it can: one that runs. Members are those of the gang.
func RestartsAlone(spec *dag.Task, e events.GangBroken, members []Member) (runs record.Key, ok bool) {
	to := dag.PodEvicted
	if e.Failed {
		to = dag.PodFailed
	}
	if r, found := spec.Reacts(to, e.ExitCode); e.Done || !found || r.Action != dag.RestartRole {
		return runs, false
	}
	i := slices.IndexFunc(members, func(m Member) bool {
		return m.Task.Index != e.Task && m.runs() && m.Cluster.Started
	})
	if i < 0 {
		return runs, false
	}
	return record.ClusterKey(members[i].Cluster.ID), true
}

// DecideAlone has a task of a gang wait for its own admission, as the others go on. What it holds back of its queue is
// looked at again.
func DecideAlone(m Member, runs record.Key) (d record.Decision) {
	m.Task.Alone = true
	d.Touch(runs) // whatever has it save its work decides with this task in view
	d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
	d.Emit(events.CapacityFreed{Queue: m.Job.Queue})
	return d
}

// DecideFollow has a task of a broken gang give back what it holds: at once if it has not begun, else when it has saved
// its work.
func DecideFollow(m Member, reason string, cfg record.Config, now time.Time) (d record.Decision) {
	switch {
	case m.Task.State == record.TaskAdmitted && !m.Bought && m.Attempt.Outcome == "":
		st := Buying{Job: m.Job, task: m.Task, Attempt: m.Attempt}
		d = decideUnbought(&st, apitypes.OutcomeMoved, reason, now)
		rejoin(&d, m.Job, m.Task, reason)
	case m.Task.State == record.TaskQueued && m.Task.Alone:
		m.Task.Alone = false // it is one of those again that begin together
		d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
		d.Emit(events.CapacityFreed{Queue: m.Job.Queue})
	case m.Bought:
		d = DecideGiveBack(m.Losing, record.LeaveGang, reason, cfg, now)
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
		d = decideUnbought(&st, apitypes.OutcomeMoved, "the work of its gang is done", now)
	case m.Bought && m.Cluster.Outcome == "":
		if m.Cluster.Running.IsZero() {
			m.Cluster.Running = now
		}
		m.Cluster.Outcome, m.Cluster.Ended, cluster = apitypes.OutcomeSucceeded, now, m.Cluster.ID
		d.Put(record.ClusterKey(m.Cluster.ID), m.Cluster)
		d.Unplanned(m.Job, m.Cluster)
	}
	if m.Task.StartedAt.IsZero() {
		m.Task.StartedAt = now
	}
	m.Task.State, m.Task.EndedAt, m.Task.Progress = record.TaskSucceeded, now, 1
	d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
	d.Emit(events.TaskSucceeded{Job: m.Job.ID, Task: m.Task.Index, Attempt: m.Task.Attempt, Cluster: cluster})
	return d
}
