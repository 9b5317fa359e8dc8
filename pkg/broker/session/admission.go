package session

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// admission is a session's view of one waiting task: all that becomes of it depends on this.
type admission struct {
	queue   *record.Queue
	waiting record.Waiting
	job     record.Job
	ledger  record.Ledger
	task    record.Task
	plan    *record.Plan // shared; nil before the first
	name    string
	nodes   int
	gang    *together    // that it is a member of; nil if of none
	blocked bool         // the planned location is not to be tried now
	pool    *pooled      // where it is placed instead; nil where it is to be bought
	price   *bid.Waiting // better price that it may wait for; nil for none
}

// vcpu is what the task would hold on all its machines: they are bought together or not at all.
func (a admission) vcpu() float64 { return a.plan.Of(a.waiting.Task).VCPU * float64(a.nodes) }

// verdict says what becomes of a waiting task.
type verdict int

const (
	verdictAdmit  verdict = iota // if the session lets it
	verdictSkip                  // not now, for a reason of its own
	verdictWait                  // not at the price of now
	verdictDrop                  // its job is over
	verdictReplan                // its plan is no good
	verdictNever                 // more than its queue, or one above it, allows at all
)

// judge decides on one waiting task as far as that does not depend on others.
func (s *Session) judge(a admission) verdict {
	switch {
	case a.job.State == record.JobEnding || a.job.State.Over() || a.task.State != record.TaskQueued:
		return verdictDrop
	case a.job.State != record.JobRunning || a.plan == nil || a.job.Plan.Version < a.waiting.MinPlan:
		return verdictSkip
	}
	if a.plan.Of(a.waiting.Task) == nil || a.blocked {
		return verdictReplan
	}
	if _, most := s.most(a.queue); a.vcpu() > most {
		return verdictNever
	}
	if v := a.affordable(); v != verdictAdmit || a.price == nil {
		return v
	}
	return s.judgePrice(a)
}

// affordable says whether the job's budget has enough left for the task.
func (a admission) affordable() verdict {
	if a.job.BudgetUSD > 0 && a.plan.TaskUSD[a.waiting.Task] > a.left()+record.CentsEps {
		if a.ledger.Outstanding > 0 {
			return verdictSkip // what others do not use comes back
		}
		return verdictReplan
	}
	return verdictAdmit
}

// left is what the budget has neither spent nor set aside.
func (a admission) left() float64 {
	return a.job.BudgetUSD - a.ledger.SpentUSD - a.ledger.ReservedUSD
}

// reserveSlack is how much longer than expected an attempt may take on what is set aside for it.
const reserveSlack = 1.25

// reserve is what to set aside for an attempt: its expected run time with some slack and the
// broker's overhead, at the most that an hour may cost, as far as the budget goes. A job without budget sets nothing
// aside.
func reserve(a admission, bidUSD, overheadHours float64) float64 {
	if a.job.BudgetUSD <= 0 {
		return 0
	}
	t := a.waiting.Task
	usd, hours := max(a.plan.Of(t).Offer.USDPerHour, bidUSD), a.plan.TaskHours[t]
	if a.pool != nil {
		usd, hours = a.pool.offer.USDPerHour, a.pool.hours
	}
	want := usd * float64(a.nodes) * (hours*reserveSlack + overheadHours)
	return math.Max(0, math.Min(want, a.left()))
}
