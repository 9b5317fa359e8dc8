package broker

import (
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// maxWatchedTogether is the maximum number of spot clusters that one transaction checks.
const maxWatchedTogether = 15

// watchJob checks a job at the current prices. If the current plan has become worse, it requests a new one. It
// reprices the job's spot machines and leaves those that are no longer worth their price, as many as fit into one
// transaction. If a task waited for a better price and need not wait any more, it marks the job's queue for a
// session.
func (b *Functions) watchJob(u *txn.Unit, cause string, w *walked,
	changed map[string]events.MarketChange) (err error) {
	if w.job.State.Finished() {
		return nil
	}
	if len(changed) > 0 && w.job.State == apitypes.JobRunning {
		w.done++
		if err := b.checkPlan(u.Ctx, cause, w.job.ID, changed); err != nil {
			return err
		}
	}
	if w.wake, err = b.doneWaiting(u, w.job); err != nil || w.ledger.Outstanding == 0 {
		return err // or the job has no machine
	}
	w.done++
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(w.job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	clusters = slices.DeleteFunc(clusters, func(cl record.Cluster) bool { return !cl.Offer.Spot })
	if len(clusters) > 0 {
		settled, err := b.upToDate(u, w.job)
		if err != nil {
			return err
		}
		clusters = slices.DeleteFunc(clusters, settled)
	}
	for part := range slices.Chunk(clusters, maxWatchedTogether) {
		w.done++
		err := b.txns.Transact(u.Ctx, events.FnTick, cause+"/spot/"+w.job.ID, false, func(u *txn.Unit) error {
			return b.watch(u, part)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// upToDate returns a filter for spot clusters that need no check: only the cloud can make their task leave, and their
// cost is up to date.
func (b *Functions) upToDate(u *txn.Unit, job record.Job) (func(record.Cluster) bool, error) {
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
		if cl.Market == "" || !attempt.IsUnconstrained(job, bids, &spec.Tasks[cl.Task], cl.Task) {
			return false
		}
		m, _, err := recordcache.Get[record.MarketRecord](u, record.MarketKey(cl.Market))
		return err == nil && !cl.Reprice(m, cl.SurchargeUSD, u.Now)
	}, nil
}

// watch reprices some of a job's spot clusters, and leaves those that are no longer worth their price.
func (b *Functions) watch(u *txn.Unit, part []record.Cluster) error {
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

// considerAdvice reacts to a cloud's advice to leave a machine that is at risk. The task leaves if a loss of the
// machine would leave too little time, counting one more start.
func (b *Functions) considerAdvice(u *txn.Unit, l attempt.Losing) error {
	d, err := attempt.DecideStay(u, b.cfg, l, b.cfg.Restart, u.Now)
	if err != nil {
		return err
	}
	return u.Apply(d)
}
