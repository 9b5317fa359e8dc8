package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// If the policy has the action move, a session can make room for a task that fits on no single machine of a pool
// although the pool has enough capacity in total. It moves running tasks to other machines, or stops less urgent ones
// (Aladdin, §IV.B: migration and preemption), if the loss is below the extra cost of buying a machine. Meanwhile,
// machines are kept for the moved tasks and for the new task by name. docs/scheduling.md explains why this
// terminates.

const (
	actionMove = scheduler.Moves
	moveTries  = 4  // maximum number of tasks for which a session tries to make room
	moveLooks  = 64 // maximum number of running clusters that are checked for each of them
	moveItems  = 16 // maximum transaction items
)

// redeem places tasks on the machines that are kept for them. A task whose machines are still in use waits for them.
func (s *Session) redeem(pools []record.PoolSeen, bound []*admission) error {
	for _, a := range bound {
		name := a.queue.ClaimedIn(a.claim(), s.u.Now)
		i := slices.IndexFunc(pools, func(p record.PoolSeen) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		if !slices.Contains(s.Fresh, name) { // the pool may have changed since it was read
			s.u.Missing.Fresh = []string{name}
			return recordcache.ErrMissing
		}
		w, err := s.want(&pools[i], a)
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		machines, free, waits := poolfit.Kept(&pools[i], a.claim(), a.nodes, w.hold, s.Config.Pool, s.u.Now)
		switch {
		// a machine is gone: place the task again, or buy
		case machines == nil || slices.ContainsFunc(machines, s.inWindow):
		case waits:
			a.awaits = true
		case free:
			k := &packing{machines: machines}
			a.pool = k.pooled(&pools[i], w, poolfit.Ranks(a.nodes))
			a.pool.redeemed = true
		}
	}
	return nil
}

// makeRoom makes room in a pool for one of the tasks that found no place. A tree makes room for one task at a time.
// It makes none while a task is late, because freed capacity must go to the late task.
func (s *Session) makeRoom(pools []record.PoolSeen, bound []*admission) error {
	late := func(a *admission) bool { return s.late(a, 1) }
	if !s.follows(actionMove) || record.MakesRoom(s.tree, s.u.Now) || s.u.Items()+moveItems > sessionFull ||
		slices.ContainsFunc(s.candidates, late) {
		return nil
	}
	tries := moveTries
	for _, a := range bound {
		if a.pool != nil || a.awaits || !s.mayAwait(a) {
			continue
		}
		if tries--; tries < 0 {
			break
		}
		for i := range pools {
			w, err := s.want(&pools[i], a)
			if err != nil {
				return err
			}
			if w == nil {
				continue
			}
			if made, err := s.makeRoomIn(&pools[i], w, bound); err != nil || made {
				return err
			}
		}
	}
	return nil
}

// inWindow reports whether a machine is available only in a time window. Such machines are not used to make room.
func (s *Session) inWindow(m *record.PoolMachine) bool {
	_, named := windows(s.Policy)[m.Labels[record.LabelWindow]]
	return named
}

// mayAwait reports whether a task may wait until room is made for it. It must be alone, have no monthly budget that
// others could use up meanwhile, and not become late by then.
func (s *Session) mayAwait(a *admission) bool {
	return a.alone() && len(s.purses(a.job.Queue)) == 0 && s.makingEnds().Sub(a.since()) < s.patience()
}

// makingEnds returns the time until which room that is made now is kept.
func (s *Session) makingEnds() time.Time { return s.u.Now.Add(s.Config.PromisedFor()) }

// alone reports whether a task has no gang, no service, no placement rule and no budget.
func (a *admission) alone() bool {
	return a.task.Gang == "" && a.task.Joins == "" && a.task.Service == "" && !a.isRuled() && a.job.BudgetUSD <= 0
}

// inTime reports whether a task finishes in time on machines of a pool if it starts there later by a duration.
func (s *Session) inTime(w *want, later time.Duration) (bool, error) {
	left, err := s.slack(w.a)
	hours := 0.0
	for _, h := range w.machines {
		hours = max(hours, h)
	}
	return record.Duration(hours)+later <= left, err
}

// makeRoomIn makes room in one pool for a task, in addition to the tasks that were just placed there, if that saves
// money. It reports whether it did.
func (s *Session) makeRoomIn(p *record.PoolSeen, w *want, bound []*admission) (bool, error) {
	gain := w.instead.USD - w.mostUSD
	if ok, err := s.inTime(w, 2*s.Config.Overhead); err != nil || !ok {
		return false, err
	}
	k := &packing{}
	if err := s.machines(k, p, p.Order); err != nil {
		return false, err
	}
	k.machines = slices.DeleteFunc(k.machines, s.inWindow)
	for _, a := range bound {
		if a.pool != nil && a.pool.pool.Name == p.Name && !a.pool.redeemed {
			k.give(a.pool)
		}
	}
	if !poolfit.Enough(k.machines, w.hold, w.a.nodes) {
		return false, nil
	}
	runs, at, err := s.movableTasks(p, k, w)
	if err != nil || len(runs) == 0 {
		return false, err
	}
	task := poolfit.Task{Hold: w.hold, May: w.machines, Nodes: w.a.nodes}
	room, err := poolfit.MakeRoom(k.machines, task, runs, gain)
	if err != nil {
		return false, record.Final(fmt.Errorf("broker: pool %s: %w", p.Name, err))
	}
	if room == nil || len(room.Leaves) == 0 || s.u.Items()+3*len(room.Leaves)+w.a.nodes > sessionFull {
		return false, nil
	}
	return true, s.makeLeave(p, w, room, at)
}

// movableTasks returns the running tasks on suitable machines that may leave for the task of w, with the cost of
// moving or stopping each, and their records by cluster ID.
func (s *Session) movableTasks(
	p *record.PoolSeen,
	k *packing,
	w *want,
) (runs []poolfit.RunningTask, at map[string]attempt.Losing,
	err error) {
	at = map[string]attempt.Losing{}
	looks := moveLooks
	for _, m := range k.machines {
		if _, suits := w.machines[m.Class()]; !suits || !record.Fits(w.hold, m.Capacity) {
			continue
		}
		for _, use := range m.Uses {
			if use.Cluster == "" || s.u.Now.Sub(use.Since) < s.Config.Restart || looks == 0 {
				continue
			}
			looks--
			l, found, lacks := attempt.LoadLosing(s.u, use.Cluster)
			if lacking(lacks) != nil {
				return nil, nil, lacks
			}
			if lacks != nil || !found {
				continue
			}
			r, ok, lacks := s.movingCost(p, w.a, &l)
			if lacking(lacks) != nil {
				return nil, nil, lacks
			}
			if ok {
				r.Machine, r.Hold, at[use.Cluster] = m.ID, use.Hold, l
				runs = append(runs, r)
			}
		}
	}
	if s.u.Missing.Any() {
		return nil, nil, recordcache.ErrMissing
	}
	return runs, at, nil
}

// mayLeave reports whether the records of a running task allow it to leave its machine for another task.
func (s *Session) mayLeave(of *admission, l *attempt.Losing) bool {
	return s.queues[l.Job.Queue] != nil && l.Job.Priority <= of.job.Priority && l.CanLeave(s.Config.Restart, s.u.Now) &&
		len(l.Cluster.Nodes) == 1 && l.Task.Plan == l.Job.Plan.Version && l.Job.Suspended() == nil &&
		len(s.purses(l.Job.Queue)) == 0
}

// movingCost returns the cost of stopping a running task so that another task gets its machine, and whether that is
// allowed. It is allowed if the running task is not more urgent, has run long enough, still finishes in time, and was
// not itself given its room by stopping the other task. The work since the last checkpoint counts as lost, because
// saving may fail, and so does the time of a restart. An hour of work has the price of the planned location, because
// a pool machine may be free.
func (s *Session) movingCost(
	p *record.PoolSeen,
	of *admission,
	l *attempt.Losing,
) (r poolfit.RunningTask, ok bool, err error) {
	if !s.mayLeave(of, l) {
		return r, false, nil
	}
	side, err := s.sideOf(l.Job.ID)
	if err == nil {
		ok, err = s.planned(side)
	}
	if err != nil || !ok {
		return r, false, err
	}
	a := &admission{side: side, queue: s.queues[l.Job.Queue], waiting: record.WaitingOf(l.Job, l.Task), task: l.Task,
		nodes: 1, name: side.spec.Tasks[l.Cluster.Task].Name}
	w, err := s.want(p, a)
	if err != nil || w == nil || !a.alone() || slices.Contains(of.yielded(), a.claim()) {
		return r, false, err
	}
	if ok, err = s.inTime(w, 2*s.Config.Overhead+s.Config.Restart); err != nil || !ok {
		return r, false, err
	}
	t, saved := &side.spec.Tasks[l.Cluster.Task], l.Cluster.Running
	if t.Resumes() && l.Task.Checkpoint.At.After(saved) {
		saved = l.Task.Checkpoint.At
	}
	usd, hours := side.plan.TaskUSD[l.Cluster.Task], side.plan.TaskHours[l.Cluster.Task]
	if hours <= 0 {
		return r, false, nil
	}
	lost := record.Hours(s.u.Now.Sub(saved)+s.Config.Restart) * usd / hours
	r = poolfit.RunningTask{Cluster: l.Cluster.ID, May: w.machines, MoveUSD: lost, LeaveUSD: math.Inf(1)}
	if l.Job.Priority < of.job.Priority {
		r.LeaveUSD = lost + max(0, w.instead.USD-w.mostUSD)
	}
	return r, true, nil
}

// makeLeave makes the tasks of room leave their machines for the task of w. It keeps machines for all of them.
func (s *Session) makeLeave(p *record.PoolSeen, w *want, room *poolfit.Room, at map[string]attempt.Losing) error {
	claim, until := w.a.claim(), s.makingEnds()
	kept := map[string]record.PoolPromise{}
	var hosts []string
	for rank, host := range room.Hosts {
		hosts = append(hosts, host)
		kept[host] = record.PoolPromise{For: claim, Rank: rank, Hold: w.hold, Until: until, Waits: true}
	}
	if err := s.promise(p, hosts, func(m *record.PoolMachine) { m.Promise(kept[m.ID], s.u.Now) }); err != nil {
		return err
	}
	s.keep(w.a.queue, claim, p.Name)
	for _, leaves := range room.Leaves {
		l := at[leaves.Runs.Cluster]
		spec, err := s.u.Spec(l.Job)
		if err != nil {
			return err
		}
		t := spec.Tasks[l.Cluster.Task]
		own := claimOf(l.Job.ID, t.Name, t.Gang)
		reason := fmt.Sprintf("to make room for task %s of %s on machine %s/%s", w.a.name,
			cmp.Or(w.a.job.Name, w.a.job.ID), p.Name, leaves.Runs.Machine)
		if leaves.To != "" {
			reason += ": it continues on " + p.Name + "/" + leaves.To
			err := s.promise(p, []string{leaves.To}, func(m *record.PoolMachine) {
				m.Promise(record.PoolPromise{For: own, Hold: leaves.Runs.Hold, Until: until}, s.u.Now)
			})
			if err != nil {
				return err
			}
			s.keep(s.queues[l.Job.Queue], own, p.Name)
		} else {
			reason += ": that task is more urgent"
		}
		l.Cluster.For = claim
		err = s.u.Apply(attempt.DecideLeave(l.Cluster, record.LeaveForRoom, reason, s.Config.Overhead, s.u.Now))
		if err != nil {
			return err
		}
	}
	w.a.awaits = true
	return nil
}

// keep reserves quota of a queue for a task, and records the pool whose machines are kept for it.
func (s *Session) keep(q *apitypes.Queue, claim, pool string) {
	record.AddClaim(q, apitypes.Claim{For: claim, Until: s.makingEnds(), Pool: pool}, s.u.Now)
	s.changed[q] = true
}

// promise writes the promises of some machines of a pool, which keep sets.
func (s *Session) promise(p *record.PoolSeen, hosts []string, keep func(*record.PoolMachine)) error {
	for _, index := range p.PartitionsOf(hosts) {
		key := record.PartitionKey(p.Name, index)
		part, _, err := recordcache.Get[record.Partition](s.u, key)
		if err != nil {
			return err
		}
		for i := range part.Machines {
			if slices.Contains(hosts, part.Machines[i].ID) {
				keep(&part.Machines[i])
			}
		}
		var d record.Decision
		d.Put(key, part)
		if err := s.u.Apply(d); err != nil {
			return err
		}
	}
	return nil
}
