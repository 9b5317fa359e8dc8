package session

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// act turns a verdict into writes and events.
func (s *Session) act(v verdict, a *admission) error {
	var d record.Decision
	switch v {
	case verdictAdmit:
		var err error
		if d, err = s.admitted(a); err != nil {
			return err
		}
	case verdictDrop:
		// The same entry may have been removed and added again since it was listed. Only the task's record shows
		// that.
		d.Hold(record.TaskKey(a.job.ID, a.waiting.Task))
		d.Del(record.WaitKey(a.queue.Name, a.waiting))
	case verdictNever:
		d = s.fail(a)
	case verdictReplan:
		d = s.replan(a)
	case verdictUnneeded:
		d = s.dropWorker(a)
	case verdictWait:
		d = s.waitForPrice(a)
	case verdictSkip:
	}
	return s.u.Apply(d)
}

// fail fails a task that needs more than its queue allows, alone or together with its gang.
func (s *Session) fail(a *admission) (d record.Decision) {
	var message string
	if much := s.tooMuch(a); much != "" {
		message = "it needs " + much
	} else { // then every member of its gang is planned, so its total is known
		message = a.with.tooLarge(s)
	}
	d.Del(record.WaitKey(a.queue.Name, a.waiting))
	a.task.State, a.task.EndedAt = record.TaskFailed, s.u.Now
	d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	d.Emit(events.TaskFailed{
		Job: a.job.ID, Task: a.waiting.Task, Attempt: a.task.Attempt, ExitCode: -1, Final: true, Message: message,
	})
	return d
}

// replan requests a new plan, at most once for each job in a session.
func (s *Session) replan(a *admission) (d record.Decision) {
	if s.replanned[a.job.ID] {
		return d
	}
	s.replanned[a.job.ID] = true
	reason := "a planned location is blocked"
	switch {
	case a.blocked:
	case a.plan.Of(a.waiting.Task) == nil:
		reason = "the plan has no place for a waiting task"
	case a.clash != nil:
		reason = a.clash.text
	case a.price != nil && a.affordable(a.usd()) == verdictAdmit:
		reason = a.price.ReplanReason()
	default:
		reason = "the remaining budget is less than the plan needs"
	}
	d.Emit(events.DAGReplan{Job: a.job.ID, Plan: a.job.Plan.Version, Reason: reason})
	a.task.MinPlan = a.job.Plan.Version + 1
	d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	d.Enqueue(a.job, a.task)
	return d
}

// admitted admits a task. The task leaves the queue, and holds quota and budget until capacity.freed releases them.
func (s *Session) admitted(a *admission) (d record.Decision, err error) {
	choice := a.plan.Of(a.waiting.Task)
	if a.lead != nil {
		d.Touch(*a.lead) // it must still run at the commit: a decision that ends it must conflict with this one
	}
	if a.task.Alone = a.activeMember != nil; a.task.Alone {
		d.Hold(*a.activeMember) // for the same reason
	}
	if a.pool, err = s.takePlaced(&d, a); err != nil {
		return d, err
	}
	if a.lacksWorker() { // its worker has no room any more, or the transaction is full
		s.more = s.more || s.u.Items() > 0
		return record.Decision{}, nil
	}
	hold := a.holds()
	record.Remember(a.queue, s.u.Now, HalfLife(s.Policy))
	record.CountSpace(a.queue, a.job.Namespace, apitypes.Held{Tasks: float64(a.slots()), VCPU: a.vcpu(), Use: hold})
	a.queue.Running += a.slots()
	if a.isWorker() {
		a.queue.Workers++
	}
	a.queue.VCPU += a.vcpu()
	a.queue.Use = a.queue.Use.Plus(hold)
	s.changed[a.queue] = true
	record.DropClaim(a.queue, a.claim())
	bidUSD, err := s.bidFor(a)
	if err != nil {
		return d, err
	}
	bought := a.buysAt(bidUSD)
	a.queue.Bought = a.queue.Bought.Plus(bought)
	s.gate.changed = s.gate.changed || s.gate.loaded && bought.Machines > 0
	reserved, monthly := s.reserve(a, bidUSD), len(s.purses(a.job.Queue)) > 0
	if monthly {
		record.ReserveMonth(a.queue, reserved, s.u.Now)
	}
	a.ledger.Outstanding++
	a.ledger.Shared += 1 - a.slots()
	a.ledger.VCPU += a.vcpu()
	a.ledger.Hold = a.ledger.Hold.Plus(hold)
	a.ledger.ReservedUSD += reserved
	a.task.State = record.TaskAdmitted
	a.task.Attempt++
	a.task.Plan, a.task.Hours = a.job.Plan.Version, 0
	made := apitypes.Attempt{
		Job: a.job.ID, Task: a.waiting.Task, Number: a.task.Attempt, Plan: a.job.Plan.Version,
		Offer: choice.Offer, OfferID: choice.ID, Nodes: a.nodes, Admitted: s.u.Now,
		WaitSince: a.task.WaitSince, WaitUSD: a.task.WaitUSD,
		VCPU: a.vcpu(), Hold: hold, Bought: bought, ReservedUSD: reserved, Monthly: monthly, MaxUSD: bidUSD,
		SurchargeUSD: choice.SurchargeUSD,
		Resumed:      a.task.Progress, ResumedFrom: a.task.Checkpoint.Prefix,
	}
	a.task.WaitSince, a.task.WaitUSD = time.Time{}, 0
	if a.pool != nil {
		a.pool.record(&a.task, &made)
		made.Offer.Nodes = choice.Offer.Nodes
	}
	if err := s.recordLocation(&d, a); err != nil {
		return d, err
	}
	var begins record.Decision
	if a.beginsAtOnce() {
		begins = attempt.DecideOnWorker(a.job, &a.task, made, s.Config, a.spec.Regions,
			record.Duration(a.pool.hours), s.u.Now)
	} else {
		begins.Emit(events.TaskAdmitted{Job: a.job.ID, Task: a.waiting.Task, Attempt: a.task.Attempt})
	}
	d.Wake(a.job, &a.ledger)
	d.Del(record.WaitKey(a.queue.Name, a.waiting))
	d.Put(record.LedgerKey(a.job.ID), a.ledger)
	d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	d.Put(record.AttemptKey(a.job.ID, a.waiting.Task, a.task.Attempt), made)
	d.Add(begins)
	return d, nil
}
