package broker

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// schedule admits waiting tasks in sessions of pkg/scheduler over a tree of queues, within quotas and the job's
// budget. Any number of invocations may run at the same time: they share only the records of queues, and two that
// admit to the same quota conflict at the commit. Only schedule writes queues, only schedule and reconcile write
// ledgers, and only schedule and tick write markets. So the records that many attempts share are written only by
// functions that handle events in batches.
func (b *Functions) schedule(u *txn.Unit, event events.Event) error {
	switch e := event.Data.(type) {
	case events.TaskReady:
		return b.enqueue(u, e, event.Time)
	case events.CapacityFreed:
		return b.bookFreed(u, e)
	case events.LeaseDue:
		return b.extend(u, e)
	case events.DAGPlanned, events.DAGEnding:
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Group()))
		if err != nil || !found {
			return record.OrSkip(err)
		}
		// a session admits the tasks that waited for the plan, or drops those that still wait
		b.sessionLater(u, job.Queue)
		if is[events.DAGPlanned](e) {
			return nil
		}
		ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(job.ID))
		if err != nil {
			return err
		}
		d := decideSettled(job, &ledger)
		if ledger.Settled {
			d.Put(record.LedgerKey(job.ID), ledger)
		}
		return u.Apply(d)
	case events.DAGResumed:
		b.sessionLater(u, e.Queue)
		return nil
	case events.QueueResumed:
		b.sessionLater(u, e.Queue)
		return nil
	default:
		return unexpected(events.FnSchedule, event.Data)
	}
}

// enqueue puts a ready task into its queue. since is the time of the event, so the time until the event is handled
// counts as waiting.
func (b *Functions) enqueue(u *txn.Unit, e events.TaskReady, since time.Time) error {
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	task, _, err := recordcache.Get[record.Task](u, record.TaskKey(e.Job, e.Task))
	if err != nil {
		return err
	}
	if task.Try >= e.Try || task.State == record.TaskSucceeded && e.Task < job.Tasks ||
		job.State != apitypes.JobRunning && job.State != apitypes.JobWaiting {
		return nil
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	if record.IsWorker(spec, e.Task) {
		if task.Misses++; task.State != record.TaskFailed {
			task.Misses = 0
		}
		task.Progress, task.EndedAt = 0, time.Time{}
	}
	task.Job, task.Index, task.State, task.Try = e.Job, e.Task, record.TaskQueued, e.Try
	task.Silent, task.Faults = 0, 0
	task.Chunk, task.Attempt = e.Chunk, max(task.Attempt, e.Past)
	task.Gang, task.Joins = spec.Tasks[e.Task].Gang, spec.Tasks[e.Task].Joins
	if s := spec.Tasks[e.Task].Service; s != nil {
		task.Service = s.Of
	}
	if task.ReadyAt.IsZero() {
		task.ReadyAt = u.Now
		if since.Before(u.Now) && !since.IsZero() {
			task.ReadyAt = since
		}
	}
	// If the entry is known not to exist, it need not be written or removed if this session admits the task.
	if err := u.Preload(record.WaitKey(job.Queue, record.WaitingOf(job, task))); err != nil {
		return err
	}
	var d record.Decision
	d.Put(record.TaskKey(e.Job, e.Task), task)
	d.Enqueue(job, task)
	b.sessionLater(u, job.Queue)
	return u.Apply(d)
}

// bookFreed returns an attempt's capacity to its queue, and books its cost.
func (b *Functions) bookFreed(u *txn.Unit, e events.CapacityFreed) error {
	b.sessionLater(u, e.Queue)
	if e.Job == "" {
		return nil // the event only requests a session of the queue
	}
	made, err := b.removeCluster(u, &e)
	if err != nil {
		return err
	}
	queue, err := session.QueueOf(u, b.cfg, e.Queue)
	if err != nil {
		return err
	}
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	if e.Cluster != "" && e.Task >= job.Tasks {
		if err := b.pools.RemoveWorker(u, e.Job, e.Task, e.Attempt); err != nil {
			return err
		}
	}
	if _, shares := made.Shares(); shares && e.Cluster != "" {
		if err := b.pools.Unassign(u, made.Offer.Region, e.Cluster, made.Hosts); err != nil {
			return err
		}
	}
	ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(e.Job))
	if err != nil {
		return err
	}
	record.Remember(&queue, u.Now, session.HalfLife(b.sessions.Policy(u.Ctx)))
	if !b.cfg.Limit.None() && made.Bought.Machines > 0 {
		gate, _, err := recordcache.Get[record.Gate](u, record.GateKey())
		if err == nil {
			err = u.Apply(decideOpenGate(gate, e.Queue))
		}
		if err != nil {
			return err
		}
	}
	held := apitypes.Held{Tasks: float64(slots(made)), VCPU: e.VCPU, Use: made.Hold}
	record.CountSpace(&queue, job.Namespace, held.Negative())
	if err := u.Apply(decideSettle(queue, job, ledger, made, e, u.Now)); err != nil || e.Spot == "" {
		return err
	}
	market, _, err := recordcache.Get[record.MarketRecord](u, record.MarketKey(e.Spot))
	if err != nil {
		return err
	}
	return u.Apply(decideObserved(market, e))
}

// extend lets an attempt continue that has used up its reserved money, or stops it. This depends on the remaining
// budget of its job and the remaining monthly budget of its queue.
func (b *Functions) extend(u *txn.Unit, e events.LeaseDue) error {
	l, ok, err := attempt.LoadLosing(u, e.Cluster)
	if err != nil || !ok || attempt.Diagnose(l.Cluster, b.cfg, attempt.Inventory{}, u.Now) != attempt.RemedyLease {
		return record.OrSkip(err) // it was extended, or has ended
	}
	ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(e.Job))
	if err != nil {
		return err
	}
	tree, err := session.Tree(u, b.cfg, e.Queue)
	if err != nil {
		return err
	}
	d, more := attempt.DecideLease(l, ledger, record.Purses(tree, e.Queue, u.Now), b.cfg, u.Now)
	for _, q := range tree {
		if q.Name == e.Queue && more > 0 {
			record.ReserveMonth(q, more, u.Now)
			d.Put(record.QueueKey(q.Name), *q)
		}
	}
	d.HoldTree(tree)
	return u.Apply(d)
}

// removeCluster returns the attempt whose capacity is released, and removes its cluster's record, if any. It fails with
// ErrSkip for an attempt that is already settled.
func (b *Functions) removeCluster(u *txn.Unit, e *events.CapacityFreed) (apitypes.Attempt, error) {
	if e.Cluster == "" {
		made, _, err := recordcache.Get[apitypes.Attempt](u, record.AttemptKey(e.Job, e.Task, e.Attempt))
		return made, err
	}
	cl, made, found, err := attempt.LoadReleased(u, e.Cluster, u.Now)
	if err != nil || !found {
		return made, record.OrSkip(err)
	}
	e.ReservedUSD = cl.ReservedUSD
	return made, u.Apply(attempt.DecideGone(cl, made, e.USD, u.Now))
}

// decideObserved updates a spot market's record with the outcome of an attempt.
func decideObserved(m record.MarketRecord, e events.CapacityFreed) (d record.Decision) {
	m.Offer = e.Spot
	m.Hours += e.Hours
	switch apitypes.Outcome(e.Outcome) {
	case apitypes.OutcomeRefused:
		m.Refusals++
	case apitypes.OutcomePreempted:
		m.Preemptions++
		m.Launches++
	default:
		m.Launches++
	}
	d.Put(record.MarketKey(e.Spot), m)
	return d
}

// slots returns the number of running tasks of its queue as which an attempt counts. It is 0 for an attempt on a
// worker, because the worker counts as one.
func slots(a apitypes.Attempt) int {
	if _, shares := a.Shares(); shares {
		return 0
	}
	return 1
}

// decideOpenGate starts a session for each queue that waits for the limit of the deployment, except queue, which gets
// one anyway. It writes the gate even if no queue waits, so that an admission that has read the gate before is
// repeated.
func decideOpenGate(g record.Gate, queue string) (d record.Decision) {
	g.Waiting = slices.DeleteFunc(slices.Clone(g.Waiting), func(q string) bool { return q == queue })
	n := min(len(g.Waiting), gateOpens)
	for _, q := range g.Waiting[:n] {
		d.Emit(events.CapacityFreed{Queue: q})
	}
	d.Put(record.GateKey(), record.Gate{Waiting: g.Waiting[n:]})
	return d
}

// gateOpens is the maximum number of queues that a release wakes, so that its events fit into the transaction. The
// next release wakes more.
const gateOpens = 8

func decideSettle(queue apitypes.Queue, job record.Job, ledger record.Ledger, made apitypes.Attempt,
	e events.CapacityFreed, now time.Time) record.Decision {
	queue.Running = max(queue.Running-slots(made), 0)
	if e.Task >= job.Tasks { // a worker
		queue.Workers = max(queue.Workers-1, 0)
	}
	queue.VCPU = max(queue.VCPU-e.VCPU, 0)
	queue.Use = queue.Use.Minus(made.Hold)
	queue.Bought = queue.Bought.Minus(made.Bought)
	if made.Monthly {
		record.SettleMonth(&queue, e.USD, e.ReservedUSD, now)
	} else {
		record.SettleMonth(&queue, e.USD, 0, now)
	}
	ledger.SpentUSD += e.USD
	ledger.ReservedUSD = max(ledger.ReservedUSD-e.ReservedUSD, 0)
	ledger.Outstanding = max(ledger.Outstanding-1, 0)
	ledger.Shared = max(ledger.Shared-1+slots(made), 0)
	ledger.VCPU = max(ledger.VCPU-e.VCPU, 0)
	ledger.Hold = ledger.Hold.Minus(made.Hold)
	if ledger.Outstanding == 0 {
		ledger.ReservedUSD, ledger.VCPU, ledger.Hold, ledger.Shared = 0, 0, nil, 0 // remove rounding errors
	}
	d := decideSettled(job, &ledger)
	d.Hold(record.JobKey(job.ID)) // so that this decision and the job's end cannot miss each other
	d.Put(record.QueueKey(queue.Name), queue)
	d.Put(record.LedgerKey(job.ID), ledger)
	return d
}

// decideSettled emits DAGSettled if the job is ending and no attempt of it holds anything any more. The ledger
// records that. So a session that has read the job before its end cannot admit a task of it any more.
func decideSettled(job record.Job, ledger *record.Ledger) record.Decision {
	var d record.Decision
	if job.State == apitypes.JobEnding && ledger.Outstanding == 0 {
		ledger.Settled = true
		d.Emit(events.DAGSettled{Job: job.ID, USD: ledger.SpentUSD})
	}
	return d
}

// sessionLater runs one session for a queue and those that share a quota with it, before the unit commits. While
// admission is paused, it does nothing: the host starts a session for each queue when it resumes.
func (b *Functions) sessionLater(u *txn.Unit, queue string) {
	if b.sessions.PausedBecause() != "" {
		return
	}
	cause := u.Cause
	u.Finally("session "+queue, func() error {
		u.Cause, u.Count = cause+"/session", 0
		return b.sessions.Run(u, queue, (*session.Session).Decide)
	})
}
