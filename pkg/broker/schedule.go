package broker

import (
	"github.com/tradewind-broker/tradewind/events"
)

// schedule admits waiting tasks in sessions of pkg/scheduler over a tree of queues, as far as quotas and the job's
// budget go. Any number of it run at once: what they share are the records of queues, and two that admit to the same quota conflict at
// the commit. It alone writes queues, with reconcile the ledgers, and with tick the markets: all that many attempts
// share is written by what handles their events in batches.
func (b *Broker) schedule(u *unit, data events.Data) error {
	switch e := data.(type) {
	case events.TaskReady:
		return b.enqueue(u, e)
	case events.CapacityFreed:
		return b.settle(u, e)
	case events.DAGPlanned:
		job, found, err := get[Job](u, jobKey(e.Job))
		if err != nil || !found {
			return orSkip(err)
		}
		b.sessionLater(u, job.Queue)
		return nil
	case events.DAGEnding:
		job, found, err := get[Job](u, jobKey(e.Job))
		if err != nil || !found {
			return orSkip(err)
		}
		ledger, _, err := get[Ledger](u, ledgerKey(e.Job))
		if err != nil {
			return err
		}
		b.sessionLater(u, job.Queue) // drops what still waits
		return u.apply(decideSettled(job, ledger))
	default:
		return unexpected(events.FnSchedule, data)
	}
}

// enqueue puts a ready task in its queue.
func (b *Broker) enqueue(u *unit, e events.TaskReady) error {
	job, found, err := get[Job](u, jobKey(e.Job))
	if err != nil || !found {
		return orSkip(err)
	}
	task, _, err := get[Task](u, taskKey(e.Job, e.Task))
	if err != nil {
		return err
	}
	if task.Try >= e.Try || job.State != JobRunning && job.State != JobWaiting {
		return nil
	}
	spec, err := u.spec(job)
	if err != nil {
		return err
	}
	task.Job, task.Index, task.State, task.Try = e.Job, e.Task, TaskQueued, e.Try
	task.Gang = spec.Tasks[e.Task].Gang
	if task.ReadyAt.IsZero() {
		task.ReadyAt = u.now
	}
	// Known to be absent, the entry need neither be written nor removed where this session admits the task.
	if err := u.preload(waitKey(job.Queue, waitingOf(job, task))); err != nil {
		return err
	}
	var d Decision
	d.put(taskKey(e.Job, e.Task), task)
	d.enqueue(job, task)
	b.sessionLater(u, job.Queue)
	return u.apply(d)
}

// enqueue adds the waiting entry of a task. Its key follows from the job and the task, so that it can be found again.
func (d *Decision) enqueue(job Job, task Task) {
	d.hold(jobKey(job.ID)) // nothing drops an entry that comes after the job's end
	w := waitingOf(job, task)
	d.put(waitKey(job.Queue, w), w)
}

// waitingOf is the waiting entry of a task.
func waitingOf(job Job, task Task) Waiting {
	return Waiting{Job: job.ID, Task: task.Index, Priority: job.Priority, Since: task.ReadyAt, MinPlan: task.MinPlan}
}

// settle takes back what an attempt held and books what it cost.
func (b *Broker) settle(u *unit, e events.CapacityFreed) error {
	b.sessionLater(u, e.Queue)
	if e.Job == "" {
		return nil // only an invitation to look at the queue again
	}
	if e.Cluster != "" {
		cl, attempt, found, err := loadReleased(u, e.Cluster, u.now)
		if err != nil || !found {
			return err // settled before
		}
		e.ReservedUSD = cl.ReservedUSD
		if err := u.apply(decideGone(cl, attempt, e.USD, u.now)); err != nil {
			return err
		}
	}
	queue, err := queueOf(u, b.cfg, e.Queue)
	if err != nil {
		return err
	}
	job, found, err := get[Job](u, jobKey(e.Job))
	if err != nil || !found {
		return orSkip(err)
	}
	ledger, _, err := get[Ledger](u, ledgerKey(e.Job))
	if err != nil {
		return err
	}
	if err := u.apply(decideSettle(queue, job, ledger, e)); err != nil || e.Spot == "" {
		return err
	}
	market, _, err := get[MarketRecord](u, marketKey(e.Spot))
	if err != nil {
		return err
	}
	return u.apply(decideObserved(market, e))
}

// decideObserved learns from what became of an attempt on a spot market.
func decideObserved(m MarketRecord, e events.CapacityFreed) (d Decision) {
	m.Offer = e.Spot
	m.Hours += e.Hours
	switch Outcome(e.Outcome) {
	case OutcomeRefused:
		m.Refusals++
	case OutcomePreempted:
		m.Preemptions++
		m.Launches++
	default:
		m.Launches++
	}
	d.put(marketKey(e.Spot), m)
	return d
}

func decideSettle(queue Queue, job Job, ledger Ledger, e events.CapacityFreed) Decision {
	queue.Running = max(queue.Running-1, 0)
	queue.VCPU = max(queue.VCPU-e.VCPU, 0)
	ledger.SpentUSD += e.USD
	ledger.ReservedUSD = max(ledger.ReservedUSD-e.ReservedUSD, 0)
	ledger.Outstanding = max(ledger.Outstanding-1, 0)
	ledger.VCPU = max(ledger.VCPU-e.VCPU, 0)
	if ledger.Outstanding == 0 {
		ledger.ReservedUSD, ledger.VCPU = 0, 0 // what rounding left
	}
	d := decideSettled(job, ledger)
	d.hold(jobKey(job.ID)) // either this sees that the job is ending, or its end sees this
	d.put(queueKey(queue.Name), queue)
	d.put(ledgerKey(job.ID), ledger)
	return d
}

// decideSettled tells that an ending job has no attempt left that holds anything.
func decideSettled(job Job, ledger Ledger) Decision {
	var d Decision
	if job.State == JobEnding && ledger.Outstanding == 0 {
		d.emit(events.DAGSettled{Job: job.ID, USD: ledger.SpentUSD})
	}
	return d
}

// queueOf loads a queue, or what one starts as that nobody configured.
func queueOf(u reader, cfg Config, name string) (Queue, error) {
	q, found, err := get[Queue](u, queueKey(name))
	if !found {
		q = cfg.DefaultQueue
		q.Name = name
	}
	return q, err
}
