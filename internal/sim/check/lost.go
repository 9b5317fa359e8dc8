package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// InvLost is the rule that the work which a task loses on spot machines is bounded, unless no on-demand offer is
// available for it. The checker measures the loss by the machines that clouds took, not by the broker's count.
const InvLost = "lost work ends the use of spot"

// lostWork is the work that a task has lost on spot machines that their clouds took.
type lostWork struct {
	time, before time.Duration // in all, and before the last loss
}

// spotLost records the work that a task lost when an attempt on spot ended: the time for which the task ran until the
// first of its machines was taken, without the part that a checkpoint of the attempt saved.
func (c *Checker) spotLost(s *Job, a apitypes.Attempt) {
	cluster := record.ClusterID(a.Job, a.Task, a.Number)
	if !a.Offer.Spot || a.Started.IsZero() ||
		a.Outcome != apitypes.OutcomePreempted && a.Outcome != apitypes.OutcomeLost ||
		s.serves(a.Task) || s.isWorker(a.Task) {
		return
	}
	since, t := a.Started, s.Tasks[a.Task]
	if t.Checkpoint.Prefix != a.ResumedFrom && t.Checkpoint.At.After(since) {
		since = t.Checkpoint.At
	}
	taken := time.Time{}
	for _, m := range s.machines {
		if m.Cluster == cluster && !m.Alive() && (taken.IsZero() || m.Ended.Before(taken)) {
			taken = m.Ended
		}
	}
	if taken.IsZero() || !taken.After(since) {
		return
	}
	lost := s.lost[a.Task].time
	s.lost[a.Task] = lostWork{time: lost + taken.Sub(since), before: lost}
}

// checkLostWork checks that a task that is admitted to a spot machine has not lost more work than it contains. The
// last loss does not count, because the plan may have been made between its notice and the loss.
func (c *Checker) checkLostWork(s *Job, a apitypes.Attempt) {
	lost, has := s.lost[a.Task]
	if !has || !a.Offer.Spot || s.user == nil {
		return
	}
	t := &s.user.Spec.Tasks[a.Task]
	for _, l := range weather.Catalogue() {
		if l.ID() == weather.ListingOf(a.Offer) && lost.before < planner.WholeWork(t, &l) {
			return
		}
	}
	c.Count("spot after much lost work")
	if c.onDemandOpen(s, t) {
		c.Violatef(InvLost, "%s/%s has lost %v of work on spot, and is admitted to %s", s.ID, t.Name,
			lost.time.Round(time.Second), a.OfferID)
	}
}

// onDemandOpen reports whether a task may run on demand somewhere that was not blocked when the plan was made.
func (c *Checker) onDemandOpen(s *Job, t *dag.Task) bool {
	onDemand := false
	for _, r := range t.Resources {
		onDemand = onDemand || r.Market != dag.MarketSpot
	}
	for _, l := range weather.Catalogue() {
		if onDemand && planner.Suits(t, &l) && !c.everBlocked(l.Offer(false, l.OnDemandUSD), s.planned) {
			return true
		}
	}
	return false
}

// everBlocked reports whether a block that ends after a time covers an offer.
func (c *Checker) everBlocked(o apitypes.Offer, at time.Time) bool {
	for _, b := range c.blocks {
		if record.Covers(b, o, at.Add(-c.cfg.Overhead)) {
			return true
		}
	}
	return false
}
