package broker

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// interrupt reacts to a cloud's notice: the task saves its work now. Meanwhile, a plan is made for the place where
// the task resumes when it has saved or the machine is gone.
func (b *Functions) interrupt(u *txn.Unit, event events.Event) error {
	data := event.Data
	switch e := data.(type) {
	case events.GangBroken:
		return b.gangBroken(u, e)
	case events.DAGSuspended:
		return b.suspended(u, e)
	case events.QueueSuspended:
		return b.queueSuspended(u, e)
	}
	e, ok := data.(events.SpotInterrupted)
	if !ok {
		return unexpected(events.FnInterrupt, data)
	}
	l, found, err := attempt.LoadLosing(u, e.Cluster)
	if err != nil || !found {
		return record.OrSkip(err)
	}
	kind := cloud.NoticeKind(e.Kind)
	var d record.Decision
	switch kind {
	case cloud.Interruption:
		if l.Cluster.Stopped() { // the agents got the notice before the broker
			d = attempt.DecideLost(l, apitypes.OutcomePreempted, "spot interruption", u.Now)
			break
		}
		d = attempt.DecideDoomed(l, e.At, u.Now)
	case cloud.Taken:
		if e.Fault != "" {
			return b.faulty(u, l, e.Fault)
		}
		if l.Cluster.Shared() {
			return u.Apply(attempt.DecideLost(l, apitypes.OutcomeLost, "its worker is gone", u.Now))
		}
		if !l.Cluster.Offer.Spot {
			d = attempt.DecideSilent(l, "its machine has ended by itself", u.Now)
			break
		}
		d = attempt.DecideLost(l, apitypes.OutcomePreempted, "spot interruption", u.Now)
	case cloud.Rebalance:
		return b.considerAdvice(u, l)
	default:
		return unexpected(events.FnInterrupt, data)
	}
	return applyNotice(u, b.cfg, l.Cluster, d)
}

// faulty ends an attempt whose machine could not start because of settings of the account. It blocks the region,
// because the next machine there would end in the same way.
func (b *Functions) faulty(u *txn.Unit, l attempt.Losing, fault string) error {
	d := attempt.DecideLost(l, apitypes.OutcomeLost, fault, u.Now)
	if len(d.Writes) > 0 {
		if err := blockLocation(u, b.cfg, l.Cluster, &d, attempt.FaultBlock(fault)); err != nil {
			return err
		}
	}
	return u.Apply(d)
}

// applyNotice applies the decision on a notice, and blocks for a while the spot market that takes the cluster.
func applyNotice(u *txn.Unit, cfg config.Config, cl record.Cluster, d record.Decision) error {
	if len(d.Writes) > 0 && cl.State != record.ClusterDoomed && cl.Offer.Spot {
		if err := blockLocation(u, cfg, cl, &d, attempt.TakenBlock); err != nil {
			return err
		}
	}
	return u.Apply(d)
}

// block returns a block of a location, given the known blocks.
type block func(o apitypes.Offer, cfg config.Config, known []apitypes.Block, now time.Time) apitypes.Block

// blockLocation blocks the location of a cluster for a while.
func blockLocation(u *txn.Unit, cfg config.Config, cl record.Cluster, d *record.Decision, why block) error {
	known, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
	if err == nil {
		d.Block(why(cl.Offer, cfg, known, u.Now))
	}
	return err
}
