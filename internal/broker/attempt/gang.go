package attempt

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Member is a task of a gang, with its current records.
type Member struct {
	Losing
	Bought bool // its cluster exists
}

// GangOf loads the tasks of a task's gang that have not succeeded, with their attempts and clusters.
func GangOf(u recordcache.Reader, job record.Job, index int) ([]Member, error) {
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	return membersOf(u, job, spec.Gang(index))
}

// JoiningOf loads the tasks that join a gang and have not succeeded, with their attempts and clusters. If ofRole is
// true, it loads only those that join the given task's role.
func JoiningOf(u recordcache.Reader, job record.Job, index int, ofRole bool) ([]Member, error) {
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	joining := spec.Joining(spec.Tasks[index].Gang)
	return membersOf(u, job, slices.DeleteFunc(joining, func(i int) bool { return ofRole && spec.Lead(i) != index }))
}

// JoinedBefore returns the tasks that had joined a gang before the gang's lost task was admitted again. Those tasks
// had joined a gang that has ended. If other tasks of the gang kept running, it returns only the tasks that joined
// the lost task's role. It fails with ErrSkip if there are none.
func JoinedBefore(u recordcache.Reader, job record.Job, lost Member, gang []Member) ([]Member, error) {
	before := func(m Member) bool { return m.Bought && m.Attempt.Admitted.Before(lost.Attempt.Admitted) }
	joined, err := JoiningOf(u, job, lost.Task.Index, slices.ContainsFunc(gang, before))
	if joined = slices.DeleteFunc(joined, func(m Member) bool { return !before(m) }); err == nil && len(joined) == 0 {
		err = record.ErrSkip
	}
	return joined, err
}

func membersOf(u recordcache.Reader, job record.Job, tasks []int) (out []Member, err error) {
	var keys []record.Key
	for _, i := range tasks {
		keys = append(keys, record.TaskKey(job.ID, i))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for _, i := range tasks {
		m := Member{Losing: Losing{Job: job}}
		if m.Task, _, err = recordcache.Get[record.Task](u, record.TaskKey(job.ID, i)); err != nil {
			return nil, err
		}
		if m.Task.State == record.TaskSucceeded {
			continue
		}
		m.Task.Job, m.Task.Index = job.ID, i // this task may not have been announced yet
		if m.Task.Attempt > 0 {
			if m.Cluster, m.Bought,
				err = recordcache.Get[record.Cluster](u,
				record.ClusterKey(record.ClusterID(job.ID, i, m.Task.Attempt))); err != nil {
				return nil, err
			}
			if m.Attempt, _,
				err = recordcache.Get[apitypes.Attempt](u, record.AttemptKey(job.ID, i, m.Task.Attempt)); err != nil {
				return nil, err
			}
			m.Cluster.UpdateAttempt(&m.Attempt)
		}
		out = append(out, m)
	}
	return out, nil
}

// runs reports whether a member runs or was commanded to run, and is not about to end.
func (m *Member) runs() bool {
	return m.Bought && m.Cluster.State == record.ClusterUp && m.Cluster.Command == string(wire.Run) &&
		m.Cluster.Outcome == ""
}

// DecideRunGang commands all tasks of a gang to run, or none. It writes all clusters, so the commit fails if one of
// them was lost meanwhile. Tasks that restart alone are commanded when all others run or are up. The others are then
// commanded again, so that they learn of the new members. If a task waits to restart alone but no other task runs any
// more, the gang breaks. Otherwise, the tasks that are up would wait for ever, and hold capacity that the waiting
// task may need.
func DecideRunGang(members []Member, now time.Time) (d record.Decision) {
	if waits := stranded(members); waits != nil {
		d.EmitGangBroken(*waits)
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

// stranded returns a task of a gang that waits to restart alone although no other task of the gang runs. It returns
// nil if there is none.
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

// RestartsAlone reports whether a task that broke its gang restarts alone. This requires another running task of the
// gang; runs is the key of that task's cluster. members are the tasks of the gang.
func RestartsAlone(spec *dag.Task, e events.GangBroken, members []Member) (runs record.Key, ok bool) {
	to := dag.PodEvicted
	if e.Failed {
		to = dag.PodFailed
	}
	if r, found := spec.Reaction(to, e.ExitCode); e.Done || !found || r.Action != dag.RestartRole {
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

// DecideRestartAlone makes a task of a gang wait for admission alone, while the other tasks continue. It requests a
// session of the task's queue.
func DecideRestartAlone(m Member, runs record.Key) (d record.Decision) {
	m.Task.Alone = true
	d.Touch(runs) // so that a concurrent decision to make that task leave conflicts with this one
	d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
	d.Emit(events.CapacityFreed{Queue: m.Job.Queue})
	return d
}

// DecideFollowGang makes a task of a broken gang release its machines and quota: at once if the task has not started,
// and otherwise when it has saved its work.
func DecideFollowGang(m Member, reason string, cfg config.Config, now time.Time) (d record.Decision) {
	switch {
	case m.Task.State == record.TaskAdmitted && !m.Bought && m.Attempt.Outcome == "":
		st := Buying{Job: m.Job, task: m.Task, Attempt: m.Attempt}
		d = decideUnbought(&st, apitypes.OutcomeMoved, reason, now)
		rejoin(&d, m.Job, m.Task, reason)
	case m.Task.State == record.TaskQueued && m.Task.Alone:
		m.Task.Alone = false // the task starts together with the others again
		d.Put(record.TaskKey(m.Job.ID, m.Task.Index), m.Task)
		d.Emit(events.CapacityFreed{Queue: m.Job.Queue})
	case m.Bought:
		d = DecideYield(m.Losing, record.LeaveGang, reason, cfg, now)
	}
	return d
}

// DecideComplete ends a task of a gang whose chief has succeeded. The task's work counts as done in any state.
func DecideComplete(m Member, now time.Time) (d record.Decision) {
	cluster := ""
	switch {
	case m.Task.State == record.TaskQueued:
		d.Del(record.WaitKey(m.Job.Queue, record.WaitingOf(m.Job, m.Task)))
	case m.Task.State == record.TaskAdmitted && !m.Bought && m.Attempt.Outcome == "":
		st := Buying{Job: m.Job, task: m.Task, Attempt: m.Attempt}
		d = decideUnbought(&st, apitypes.OutcomeMoved, "its gang has finished", now)
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
