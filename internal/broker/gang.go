package broker

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// The largest gang and all queues of a tree must fit into one transaction. Otherwise this line does not compile.
const _ = uint(store.MaxItems - dag.MaxGang*session.GangItems - record.MaxTree - session.GangOtherItems)

// start commands the agents of a cluster that is up to run. A gang starts when all of its members are up. Repeating
// it changes nothing.
func (b *Functions) start(u *txn.Unit, cl record.Cluster) error {
	task, _, err := recordcache.Get[record.Task](u, record.TaskKey(cl.Job, cl.Task))
	if err != nil {
		return err
	}
	if task.Gang == "" {
		return u.Apply(attempt.DecideRun(cl, u.Now))
	}
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	members, err := attempt.GangOf(u, job, cl.Task)
	if err != nil {
		return err
	}
	return u.Apply(attempt.DecideRunGang(members, u.Now))
}

// affectedMembers returns the tasks of a gang that has broken or is done, followed by the tasks that join the gang.
// It first decides whether the task that broke the gang restarts alone. If so, it returns only the tasks that join
// that task's role.
func (b *Functions) affectedMembers(
	u *txn.Unit,
	job record.Job,
	e events.GangBroken,
) (members []attempt.Member, err error) {
	if !e.Joining {
		if members, err = attempt.GangOf(u, job, e.Task); err != nil {
			return nil, err
		}
	}
	for _, m := range members {
		if !e.Done && m.Task.Index == e.Task && m.Task.Attempt > e.Attempt {
			return attempt.JoinedBefore(u, job, m, members) // the others have been admitted together since then
		}
	}
	alone, err := b.restartsAlone(u, job, e, members)
	if err != nil {
		return nil, err
	}
	if alone {
		members = nil
	}
	joining, err := attempt.JoiningOf(u, job, e.Task, e.Joining || alone)
	return append(members, joining...), err
}

// restartsAlone restarts the task that broke a gang alone, if the task's role allows that. It reports whether it did.
func (b *Functions) restartsAlone(u *txn.Unit, job record.Job, e events.GangBroken,
	members []attempt.Member) (bool, error) {
	i := slices.IndexFunc(members, func(m attempt.Member) bool { return m.Task.Index == e.Task })
	if i < 0 {
		return false, nil
	}
	spec, err := u.Spec(job)
	if err != nil {
		return false, err
	}
	runs, ok := attempt.RestartsAlone(&spec.Tasks[e.Task], e, members)
	if !ok {
		return false, nil
	}
	return true, u.Apply(attempt.DecideRestartAlone(members[i], runs))
}

// gangBroken makes the other tasks of a gang release their machines and quota. If not all fit into the transaction,
// the next one continues.
func (b *Functions) gangBroken(u *txn.Unit, e events.GangBroken) error {
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found || job.State == apitypes.JobEnding || job.State.Finished() {
		return record.OrSkip(err)
	}
	members, err := b.affectedMembers(u, job, e)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("a task of its gang %s could not continue", e.Gang)
	told := 0
	for _, m := range members {
		if m.Task.Index == e.Task {
			continue
		}
		d := attempt.DecideFollowGang(m, reason, b.cfg, u.Now)
		if e.Done {
			d = attempt.DecideComplete(m, u.Now)
		}
		if len(d.Writes) == 0 {
			continue
		}
		if told > 0 && !u.Room(session.GangLeaveItems) {
			var d record.Decision
			d.Emit(e)
			return u.Apply(d)
		}
		if err := u.Apply(d); err != nil {
			return err
		}
		told++
		if !m.Bought && m.Attempt.Assigned() {
			id := record.ClusterID(job.ID, m.Task.Index, m.Attempt.Number)
			if err := b.pools.Unassign(u, m.Attempt.Offer.Region, id,
				m.Attempt.Hosts); err != nil {
				return err
			}
		}
	}
	return nil
}
