package broker

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/events"
)

// schedule admits waiting tasks by priority, then age, as far as the queue's quota and the job's
// budget go. It alone writes queues, with reconcile the ledgers, and with tick the markets: all that many attempts
// share is written by what handles their events in batches.
func (b *Broker) schedule(u *unit, data events.Data) error {
	switch e := data.(type) {
	case events.TaskReady:
		return b.enqueue(u, e)
	case events.CapacityFreed:
		return b.settle(u, e)
	case events.DAGBid:
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
	task.Job, task.Index, task.State, task.Try = e.Job, e.Task, TaskQueued, e.Try
	if task.ReadyAt.IsZero() {
		task.ReadyAt = u.now
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
	w := Waiting{Job: job.ID, Task: task.Index, Priority: job.Priority, Since: task.ReadyAt, MinPlan: task.MinPlan}
	d.put(waitKey(job.Queue, w), w)
}

// settle takes back what an attempt held and books what it cost.
func (b *Broker) settle(u *unit, e events.CapacityFreed) error {
	b.sessionLater(u, e.Queue)
	if e.Job == "" {
		return nil // only an invitation to look at the queue again
	}
	queue, err := b.queue(u, e.Queue)
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
	if ledger.Outstanding == 0 {
		ledger.ReservedUSD = 0 // what rounding left
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

// queue loads a queue, or what one starts as that nobody configured.
func (b *Broker) queue(u *unit, name string) (Queue, error) {
	q, found, err := get[Queue](u, queueKey(name))
	if !found {
		q = b.cfg.DefaultQueue
		q.Name = name
	}
	return q, err
}

// sessionLater runs one session over a queue before the unit commits.
func (b *Broker) sessionLater(u *unit, queue string) {
	cause := u.cause
	u.finally("session "+queue, func() error {
		u.cause, u.count = cause+"/session", 0
		return b.session(u, queue)
	})
}

// admission is a session's view of one waiting task: all that admit depends on.
type admission struct {
	waiting Waiting
	job     Job
	ledger  Ledger
	task    Task
	plan    *Plan // shared; nil before the first
	nodes   int
	blocked bool // the planned location is not to be tried now
}

// verdict says what becomes of a waiting task.
type verdict int

const (
	verdictAdmit  verdict = iota
	verdictSkip           // not now, for a reason of its own
	verdictStop           // the queue is full
	verdictDrop           // its job is over
	verdictReplan         // its plan is no good
	verdictNever          // more than the queue allows at all
)

// admit decides on one waiting task. Order is strict: a task that does not fit the queue's quota
// stops the session, so that a large one is not overtaken forever by small ones.
func admit(q Queue, a admission) verdict {
	switch {
	case a.job.State == JobEnding || a.job.State.Over() || a.task.State != TaskQueued:
		return verdictDrop
	case a.job.State != JobRunning || a.plan == nil || a.job.Plan.Version < a.waiting.MinPlan:
		return verdictSkip
	}
	choice := a.plan.Of(a.waiting.Task)
	if choice == nil || a.blocked {
		return verdictReplan
	}
	need := choice.VCPU * float64(a.nodes)
	switch {
	case q.MaxVCPU > 0 && need > q.MaxVCPU:
		return verdictNever
	case q.MaxRunning > 0 && q.Running >= q.MaxRunning, q.MaxVCPU > 0 && q.VCPU+need > q.MaxVCPU:
		return verdictStop
	}
	if a.job.BudgetUSD > 0 && a.plan.TaskUSD[a.waiting.Task] > a.left()+centsEps {
		if a.ledger.Outstanding > 0 {
			return verdictSkip // what others do not use comes back
		}
		return verdictReplan
	}
	return verdictAdmit
}

// centsEps is the rounding a budget comparison forgives, USD.
const centsEps = 1e-9

// left is what the budget has neither spent nor set aside.
func (a admission) left() float64 {
	return a.job.BudgetUSD - a.ledger.SpentUSD - a.ledger.ReservedUSD
}

// reserveSlack is how much longer than expected an attempt may take on what is set aside for it.
const reserveSlack = 1.25

// reserve is what to set aside for an attempt: its expected run time with some slack and the
// broker's overhead, as far as the budget goes. A job without budget sets nothing aside.
func reserve(a admission, overheadHours float64) float64 {
	if a.job.BudgetUSD <= 0 {
		return 0
	}
	t := a.waiting.Task
	choice := a.plan.Of(t)
	rate := choice.Offer.USDPerHour * float64(a.nodes)
	want := rate * (a.plan.TaskHours[t]*reserveSlack + overheadHours)
	return math.Max(0, math.Min(want, a.left()))
}

const (
	sessionScan = 64   // waiting tasks looked at first
	sessionMost = 4096 // and at most, when those before them cannot go
	sessionFull = 84   // items in the transaction after which a session goes on in a next one
)

// session is one pass over a queue.
func (b *Broker) session(u *unit, name string) error {
	q, err := b.queue(u, name)
	if err != nil {
		return err
	}
	before := q
	s := &scheduling{b: b, u: u, queue: &q, replanned: map[string]bool{}}
	for scan := sessionScan; !q.full(); scan *= 4 {
		waiting, err := list[Waiting](u, waitPart(name), "wait#", scan)
		if err != nil {
			return err
		}
		done, err := s.over(waiting[min(s.looked-s.gone, len(waiting)):])
		if err != nil {
			return err
		}
		if done || len(waiting)+s.gone < scan || scan >= sessionMost {
			break
		}
	}
	if q == before {
		return nil
	}
	var d Decision
	d.put(queueKey(name), q)
	return u.apply(d)
}

func (q Queue) full() bool {
	return q.MaxRunning > 0 && q.Running >= q.MaxRunning || q.MaxVCPU > 0 && q.VCPU >= q.MaxVCPU
}

// scheduling is the state of one session.
type scheduling struct {
	b         *Broker
	u         *unit
	queue     *Queue
	blocks    []Block
	loaded    bool
	replanned map[string]bool
	looked    int // waiting tasks decided on
	gone      int // of them, taken out of the queue
}

// over goes through waiting tasks in order; done says that the session is.
func (s *scheduling) over(waiting []Waiting) (done bool, err error) {
	for _, w := range waiting {
		if s.u.items() >= sessionFull {
			var d Decision
			d.emit(events.CapacityFreed{Queue: s.queue.Name})
			return true, s.u.apply(d)
		}
		a, err := s.facts(w)
		if err != nil {
			return false, err
		}
		s.looked++
		v := admit(*s.queue, a)
		if v == verdictStop {
			return true, nil
		}
		if err := s.u.apply(s.act(v, a)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// facts loads what admit needs to know of a waiting task.
func (s *scheduling) facts(w Waiting) (a admission, err error) {
	a.waiting = w
	if err := s.u.preload(jobKey(w.Job), ledgerKey(w.Job), taskKey(w.Job, w.Task)); err != nil {
		return a, err
	}
	if a.job, _, err = get[Job](s.u, jobKey(w.Job)); err != nil {
		return a, err
	}
	if a.ledger, _, err = get[Ledger](s.u, ledgerKey(w.Job)); err != nil {
		return a, err
	}
	if a.task, _, err = get[Task](s.u, taskKey(w.Job, w.Task)); err != nil {
		return a, err
	}
	if a.job.State != JobRunning || a.job.Plan.IsZero() {
		return a, nil
	}
	spec, err := s.b.spec(s.u.ctx, a.job)
	if err != nil {
		return a, err
	}
	a.nodes = spec.Tasks[w.Task].Nodes
	if a.plan, err = s.b.plan(s.u.ctx, a.job); err != nil {
		return a, err
	}
	if choice := a.plan.Of(w.Task); choice != nil {
		a.blocked, err = s.blocked(choice)
	}
	return a, err
}

func (s *scheduling) blocked(p *Planned) (bool, error) {
	if !s.loaded {
		var err error
		if s.blocks, err = list[Block](s.u, partBlocks, "", 0); err != nil {
			return false, err
		}
		s.loaded = true
	}
	for _, k := range s.blocks {
		if k.Covers(p.Offer, s.u.now) {
			return true, nil
		}
	}
	return false, nil
}

// act turns a verdict into writes and events.
func (s *scheduling) act(v verdict, a admission) Decision {
	var d Decision
	switch v {
	case verdictAdmit:
		s.gone++
		return s.admitted(a)
	case verdictDrop:
		s.gone++
		d.del(waitKey(s.queue.Name, a.waiting))
	case verdictNever:
		s.gone++
		d.del(waitKey(s.queue.Name, a.waiting))
		choice := a.plan.Of(a.waiting.Task)
		a.task.State, a.task.EndedAt = TaskFailed, s.u.now
		d.put(taskKey(a.job.ID, a.waiting.Task), a.task)
		d.emit(events.TaskFailed{
			Job: a.job.ID, Task: a.waiting.Task, Attempt: a.task.Attempt, ExitCode: -1, Final: true,
			Message: fmt.Sprintf("it needs %g vCPUs and queue %s allows %g", choice.VCPU*float64(a.nodes), s.queue.Name, s.queue.MaxVCPU),
		})
	case verdictReplan:
		if s.replanned[a.job.ID] {
			break
		}
		s.replanned[a.job.ID] = true
		reason := "a planned location is blocked"
		if !a.blocked {
			reason = "the budget left is less than the plan needs"
		}
		d.emit(events.DAGReplan{Job: a.job.ID, Plan: a.job.Plan.Version, Reason: reason})
		a.task.MinPlan = a.job.Plan.Version + 1
		d.put(taskKey(a.job.ID, a.waiting.Task), a.task)
		d.enqueue(a.job, a.task)
	case verdictSkip, verdictStop:
	}
	return d
}

// admitted lets a task take capacity: it leaves the queue and holds quota and budget until
// capacity.freed gives them back.
func (s *scheduling) admitted(a admission) Decision {
	choice := a.plan.Of(a.waiting.Task)
	s.queue.Running++
	s.queue.VCPU += choice.VCPU * float64(a.nodes)
	reserved := reserve(a, hours(s.b.cfg.Overhead))
	a.ledger.Outstanding++
	a.ledger.ReservedUSD += reserved
	a.task.State = TaskAdmitted
	a.task.Attempt++
	a.task.Plan = a.job.Plan.Version
	attempt := Attempt{
		Job: a.job.ID, Task: a.waiting.Task, Number: a.task.Attempt, Plan: a.job.Plan.Version,
		Offer: choice.Offer, OfferID: choice.ID, Nodes: a.nodes, Admitted: s.u.now,
		VCPU: choice.VCPU * float64(a.nodes), ReservedUSD: reserved,
		Resumed: a.task.Progress, ResumedFrom: a.task.Checkpoint.Prefix,
	}
	var d Decision
	d.del(waitKey(s.queue.Name, a.waiting))
	d.put(ledgerKey(a.job.ID), a.ledger)
	d.put(taskKey(a.job.ID, a.waiting.Task), a.task)
	d.put(attemptKey(a.job.ID, a.waiting.Task, a.task.Attempt), attempt)
	d.emit(events.TaskAdmitted{Job: a.job.ID, Task: a.waiting.Task, Attempt: a.task.Attempt})
	return d
}
