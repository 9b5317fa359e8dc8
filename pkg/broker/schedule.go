package broker

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// schedule admits waiting tasks in sessions of pkg/scheduler over a tree of queues, as far as quotas and the job's
// budget go. Any number of it run at once: what they share are the records of queues, and two that admit to the same
// quota conflict at the commit. It alone writes queues, with reconcile the ledgers, and with tick the markets: all that
// many attempts share is written by what handles their events in batches.
func (b *Functions) schedule(u *unit.Unit, event events.Event) error {
	switch e := event.Data.(type) {
	case events.TaskReady:
		return b.enqueue(u, e, event.Time)
	case events.CapacityFreed:
		return b.settle(u, e)
	case events.LeaseDue:
		return b.extend(u, e)
	case events.DAGPlanned, events.DAGEnding:
		job, found, err := book.Get[record.Job](u, record.JobKey(e.Group()))
		if err != nil || !found {
			return record.OrSkip(err)
		}
		b.sessionLater(u, job.Queue) // it admits what waited for the plan, or drops what still waits
		if is[events.DAGPlanned](e) {
			return nil
		}
		ledger, _, err := book.Get[record.Ledger](u, record.LedgerKey(job.ID))
		if err != nil {
			return err
		}
		return u.Apply(decideSettled(job, ledger))
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

// enqueue puts a task in its queue that is ready since a moment: what it waited for its event it has waited.
func (b *Functions) enqueue(u *unit.Unit, e events.TaskReady, since time.Time) error {
	job, found, err := book.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	task, _, err := book.Get[record.Task](u, record.TaskKey(e.Job, e.Task))
	if err != nil {
		return err
	}
	if task.Try >= e.Try || task.State == record.TaskSucceeded ||
		job.State != apitypes.JobRunning && job.State != apitypes.JobWaiting {
		return nil
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	task.Job, task.Index, task.State, task.Try, task.Silent = e.Job, e.Task, record.TaskQueued, e.Try, 0
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
	// Known to be absent, the entry need neither be written nor removed where this session admits the task.
	if err := u.Preload(record.WaitKey(job.Queue, record.WaitingOf(job, task))); err != nil {
		return err
	}
	var d record.Decision
	d.Put(record.TaskKey(e.Job, e.Task), task)
	d.Enqueue(job, task)
	b.sessionLater(u, job.Queue)
	return u.Apply(d)
}

// settle takes back what an attempt held and books what it cost.
func (b *Functions) settle(u *unit.Unit, e events.CapacityFreed) error {
	b.sessionLater(u, e.Queue)
	if e.Job == "" {
		return nil // only an invitation to look at the queue again
	}
	made, err := b.givenBack(u, &e)
	if err != nil {
		return err
	}
	queue, err := session.QueueOf(u, b.cfg, e.Queue)
	if err != nil {
		return err
	}
	job, found, err := book.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	ledger, _, err := book.Get[record.Ledger](u, record.LedgerKey(e.Job))
	if err != nil {
		return err
	}
	record.Remember(&queue, u.Now, session.HalfLife(b.sessions.Policy(u.Ctx)))
	record.CountSpace(&queue, job.Namespace, apitypes.Held{Tasks: 1, VCPU: e.VCPU, Use: made.Hold}.Negative())
	if err := u.Apply(decideSettle(queue, job, ledger, made, e, u.Now)); err != nil || e.Spot == "" {
		return err
	}
	market, _, err := book.Get[record.MarketRecord](u, record.MarketKey(e.Spot))
	if err != nil {
		return err
	}
	return u.Apply(decideObserved(market, e))
}

// extend has an attempt go on that takes longer than what is set aside for it lasts, or stops it, by what its job's
// budget and the month's of its queue have left.
func (b *Functions) extend(u *unit.Unit, e events.LeaseDue) error {
	l, ok, err := attempt.LoadLosing(u, e.Cluster)
	if err != nil || !ok || attempt.Diagnose(l.Cluster, b.cfg, attempt.Inventory{}, u.Now) != attempt.RemedyLease {
		return record.OrSkip(err) // it was extended, or is over
	}
	ledger, _, err := book.Get[record.Ledger](u, record.LedgerKey(e.Job))
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

// givenBack is the attempt that gives back what it held, whose cluster's record, if it had one, goes with it. It fails
// with ErrSkip for one that was settled before.
func (b *Functions) givenBack(u *unit.Unit, e *events.CapacityFreed) (apitypes.Attempt, error) {
	if e.Cluster == "" {
		made, _, err := book.Get[apitypes.Attempt](u, record.AttemptKey(e.Job, e.Task, e.Attempt))
		return made, err
	}
	cl, made, found, err := attempt.LoadReleased(u, e.Cluster, u.Now)
	if err != nil || !found {
		return made, record.OrSkip(err)
	}
	e.ReservedUSD = cl.ReservedUSD
	return made, u.Apply(attempt.DecideGone(cl, made, e.USD, u.Now))
}

// decideObserved learns from what became of an attempt on a spot market.
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

func decideSettle(queue apitypes.Queue, job record.Job, ledger record.Ledger, made apitypes.Attempt,
	e events.CapacityFreed, now time.Time) record.Decision {
	queue.Running = max(queue.Running-1, 0)
	queue.VCPU = max(queue.VCPU-e.VCPU, 0)
	queue.Use = queue.Use.Minus(made.Hold)
	if made.Monthly {
		record.SettleMonth(&queue, e.USD, e.ReservedUSD, now)
	} else {
		record.SettleMonth(&queue, e.USD, 0, now)
	}
	ledger.SpentUSD += e.USD
	ledger.ReservedUSD = max(ledger.ReservedUSD-e.ReservedUSD, 0)
	ledger.Outstanding = max(ledger.Outstanding-1, 0)
	ledger.VCPU = max(ledger.VCPU-e.VCPU, 0)
	ledger.Hold = ledger.Hold.Minus(made.Hold)
	if ledger.Outstanding == 0 {
		ledger.ReservedUSD, ledger.VCPU, ledger.Hold = 0, 0, nil // what rounding left
	}
	d := decideSettled(job, ledger)
	d.Hold(record.JobKey(job.ID)) // either this sees that the job is ending, or its end sees this
	d.Put(record.QueueKey(queue.Name), queue)
	d.Put(record.LedgerKey(job.ID), ledger)
	return d
}

// decideSettled tells that an ending job has no attempt left that holds anything.
func decideSettled(job record.Job, ledger record.Ledger) record.Decision {
	var d record.Decision
	if job.State == apitypes.JobEnding && ledger.Outstanding == 0 {
		d.Emit(events.DAGSettled{Job: job.ID, USD: ledger.SpentUSD})
	}
	return d
}

// sessionLater runs one session over a queue, and those that share a quota with it, before the unit commits.
func (b *Functions) sessionLater(u *unit.Unit, queue string) {
	cause := u.Cause
	u.Finally("session "+queue, func() error {
		u.Cause, u.Count = cause+"/session", 0
		return b.sessions.Run(u, queue, (*session.Session).Decide)
	})
}
