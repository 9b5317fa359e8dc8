package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/fit"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Where a policy says so, a task that finds room on no machine of a pool, though all together have enough, may have
// some of what runs there moved to others of them, or sent away that is less urgent (Aladdin, §IV.B: migration and
// preemption), if less is lost by it than buying would cost more. Where what is moved goes on, and where the other
// goes, is kept for them by name meanwhile. docs/scheduling.md says why that ends.

const (
	actionMove = scheduler.Moves
	moveTries  = 4  // tasks that a session tries to make room for
	moveLooks  = 64 // of what runs on machines, for each
	moveItems  = 16 // of a transaction, at most
)

// redeem places tasks that machines are kept for there. Those whose machines others have not left yet wait for them.
func (s *Session) redeem(pools []record.PoolSeen, bound []*admission) error {
	for _, a := range bound {
		name := a.queue.ClaimedIn(a.claim(), s.u.Now)
		i := slices.IndexFunc(pools, func(p record.PoolSeen) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		if !slices.Contains(s.Fresh, name) { // others may have promised it, or left, since it was looked at
			s.u.Lack.Fresh = []string{name}
			return book.ErrLacking
		}
		w, err := s.want(&pools[i], a)
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		machines, free, waits := fit.Kept(&pools[i], a.claim(), a.nodes, w.hold, s.Config.Pool, s.u.Now)
		switch {
		case machines == nil || slices.ContainsFunc(machines, s.inWindow): // one has gone: it is placed anew, or bought
		case waits:
			a.awaits = true
		case free:
			k := &packing{machines: machines}
			a.pool = k.pooled(&pools[i], w, fit.Ranks(a.nodes))
			a.pool.redeemed = true
		}
	}
	return nil
}

// makeRoom has some of what runs in a pool make room for one of the tasks that were placed in none: for one at a time
// in a tree, and for none while anything there has waited for too long, as what comes free is not to be another's.
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

// inWindow says whether a machine is to be had at certain hours: those take no part.
func (s *Session) inWindow(m *record.PoolMachine) bool {
	_, named := windows(s.Policy)[m.Labels[record.LabelWindow]]
	return named
}

// mayAwait says whether a task may wait until room is made for it: one that is by itself, has no budget that others
// could use up meanwhile, and will not have waited for too long by then.
func (s *Session) mayAwait(a *admission) bool {
	return a.alone() && len(s.purses(a.job.Queue)) == 0 && s.makingEnds().Sub(a.since()) < s.patience()
}

// makingEnds is until when what is decided now is kept for those it is for.
func (s *Session) makingEnds() time.Time { return s.u.Now.Add(s.Config.PromisedFor()) }

// alone says that nothing but its machines binds a task: no gang, no service, no rule of placement, no budget.
func (a *admission) alone() bool {
	return a.task.Gang == "" && a.task.Joins == "" && a.task.Service == "" && !a.isRuled() && a.job.BudgetUSD <= 0
}

// inTime says whether a task is done in time on machines of a pool where that begins so much later.
func (s *Session) inTime(w *want, later time.Duration) (bool, error) {
	left, err := s.slack(w.a)
	hours := 0.0
	for _, h := range w.machines {
		hours = max(hours, h)
	}
	return record.Duration(hours)+later <= left, err
}

// makeRoomIn has some of what runs in a pool make room for a task, beside those that were placed there, if that pays.
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
	if !fit.Enough(k.machines, w.hold, w.a.nodes) {
		return false, nil
	}
	runs, at, err := s.movable(p, k, w)
	if err != nil || len(runs) == 0 {
		return false, err
	}
	task := fit.Task{Hold: w.hold, May: w.machines, Nodes: w.a.nodes}
	room, err := fit.Make(k.machines, task, runs, gain)
	if err != nil {
		return false, record.Final(fmt.Errorf("broker: pool %s: %w", p.Name, err))
	}
	if room == nil || len(room.Leaves) == 0 || s.u.Items()+3*len(room.Leaves)+w.a.nodes > sessionFull {
		return false, nil
	}
	return true, s.leaveFor(p, w, room, at)
}

// movable are those of what runs on machines that would suit a task which may leave them for it, with what that loses.
func (s *Session) movable(p *record.PoolSeen, k *packing, w *want) (runs []fit.Runs, at map[string]attempt.Losing,
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
			r, ok, lacks := s.runs(p, w.a, &l)
			if lacking(lacks) != nil {
				return nil, nil, lacks
			}
			if ok {
				r.Machine, r.Hold, at[use.Cluster] = m.ID, use.Hold, l
				runs = append(runs, r)
			}
		}
	}
	if s.u.Lack.Any() {
		return nil, nil, book.ErrLacking
	}
	return runs, at, nil
}

// mayLeave says of what runs that it may leave its machine for a task, as far as its own records tell.
func (s *Session) mayLeave(of *admission, l *attempt.Losing) bool {
	return s.queues[l.Job.Queue] != nil && l.Job.Priority <= of.job.Priority && l.CanGo(s.Config.Restart, s.u.Now) &&
		len(l.Cluster.Nodes) == 1 && l.Task.Plan == l.Job.Plan.Version && l.Job.Suspended() == nil &&
		len(s.purses(l.Job.Queue)) == 0
}

// runs says what it loses to have a task leave its machine for another, if it may: it is no more urgent, has run there
// for long enough, is done in time all the same, and the other was not stopped for it. What was done since it last
// saved its work counts as lost, as it may fail to save it now, and so does a start elsewhere. An hour of it counts as
// what it costs where it is planned, as where it runs it may cost nothing.
func (s *Session) runs(p *record.PoolSeen, of *admission, l *attempt.Losing) (r fit.Runs, ok bool, err error) {
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
	r = fit.Runs{Cluster: l.Cluster.ID, May: w.machines, MoveUSD: lost, LeaveUSD: math.Inf(1)}
	if l.Job.Priority < of.job.Priority {
		r.LeaveUSD = lost + max(0, w.instead.USD-w.mostUSD)
	}
	return r, true, nil
}

// leaveFor has tasks leave their machines for another, and keeps machines for all of them.
func (s *Session) leaveFor(p *record.PoolSeen, w *want, room *fit.Room, at map[string]attempt.Losing) error {
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
		reason := fmt.Sprintf("task %s of %s has room on machine %s/%s then", w.a.name,
			cmp.Or(w.a.job.Name, w.a.job.ID), p.Name, leaves.Runs.Machine)
		if leaves.To != "" {
			reason += ": it goes on on " + p.Name + "/" + leaves.To
			err := s.promise(p, []string{leaves.To}, func(m *record.PoolMachine) {
				m.Promise(record.PoolPromise{For: own, Hold: leaves.Runs.Hold, Until: until}, s.u.Now)
			})
			if err != nil {
				return err
			}
			s.keep(s.queues[l.Job.Queue], own, p.Name)
		} else {
			reason += ", which is more urgent"
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

// keep has a queue keep what a task needs of its quota, and says in which pool machines are kept for it.
func (s *Session) keep(q *apitypes.Queue, claim, pool string) {
	record.AddClaim(q, apitypes.Claim{For: claim, Until: s.makingEnds(), Pool: pool}, s.u.Now)
	s.changed[q] = true
}

// promise writes of some machines what is kept of them.
func (s *Session) promise(p *record.PoolSeen, hosts []string, keep func(*record.PoolMachine)) error {
	for _, index := range p.PartitionsOf(hosts) {
		key := record.PartitionKey(p.Name, index)
		part, _, err := book.Get[record.Partition](s.u, key)
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
