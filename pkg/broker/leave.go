package broker

import (
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// leaveMost bounds the machines that one transaction leaves.
const leaveMost = 15

// watchJob looks at a job with the prices of now: it asks for a plan where the one in force is worse, and reprices and
// leaves its spot machines, as many at once as one transaction holds. It notes the job's queue where a task in it has
// waited for a better price and does not any more.
func (b *Functions) watchJob(u *unit.Unit, cause string, w *walked,
	changed map[string]events.MarketChange) (err error) {
	if w.job.State.Over() {
		return nil
	}
	if len(changed) > 0 && w.job.State == apitypes.JobRunning {
		w.done++
		if err := b.lookAtPlan(u.Ctx, cause, w.job.ID, changed); err != nil {
			return err
		}
	}
	if w.wake, err = b.awake(u, w.job); err != nil || w.ledger.Outstanding == 0 {
		return err // or it holds no machine
	}
	w.done++
	clusters, err := book.List[record.Cluster](u, record.JobPart(w.job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	clusters = slices.DeleteFunc(clusters, func(cl record.Cluster) bool { return !cl.Offer.Spot })
	if len(clusters) > 0 {
		settled, err := b.settled(u, w.job)
		if err != nil {
			return err
		}
		clusters = slices.DeleteFunc(clusters, settled)
	}
	for part := range slices.Chunk(clusters, leaveMost) {
		w.done++
		err := b.txns.Transact(u.Ctx, events.FnTick, cause+"/spot/"+w.job.ID, false, func(u *unit.Unit) error {
			return b.watch(u, part)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settled tells the spot machines of a job that a look would change nothing of: nothing but the cloud has them left,
// and what they cost is known.
func (b *Functions) settled(u *unit.Unit, job record.Job) (func(record.Cluster) bool, error) {
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	bids := &record.Bids{}
	if !job.Bids.IsZero() {
		if bids, err = u.Bids(job); err != nil {
			return nil, err
		}
	}
	return func(cl record.Cluster) bool {
		if cl.Market == "" || !attempt.Free(job, bids, &spec.Tasks[cl.Task], cl.Task) {
			return false
		}
		m, _, err := book.Get[record.MarketRecord](u, record.MarketKey(cl.Market))
		return err == nil && !cl.Reprice(m, cl.SurchargeUSD, u.Now)
	}, nil
}

// watch reprices and leaves some of a job's spot machines.
func (b *Functions) watch(u *unit.Unit, part []record.Cluster) error {
	keys := []store.Key{record.JobKey(part[0].Job)}
	for _, cl := range part {
		keys = append(keys, record.ClusterKey(cl.ID), record.TaskKey(cl.Job, cl.Task),
			record.AttemptKey(cl.Job, cl.Task, cl.Attempt))
	}
	if err := u.Preload(keys...); err != nil {
		return err
	}
	for _, cl := range part {
		l, found, err := attempt.LoadLosing(u, cl.ID)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		d, err := attempt.DecideWatched(u, b.cfg, l, u.Now)
		if err != nil {
			return err
		}
		if err := u.Apply(d); err != nil {
			return err
		}
	}
	return nil
}

// advised reacts to a cloud's advice to leave: a machine at risk is left where its loss would leave too little time,
// with the time of another start to spare.
func (b *Functions) advised(u *unit.Unit, l attempt.Losing) error {
	d, err := attempt.DecideStay(u, b.cfg, l, b.cfg.Restart, u.Now)
	if err != nil {
		return err
	}
	return u.Apply(d)
}
