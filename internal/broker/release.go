package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// release terminates a cluster and emits its cost, in the steps intent, act and outcome. It may be called any number
// of times. If the cloud fails, one event repeats the release; others have nothing to do. The cluster's record is
// removed when schedule has booked the cost.
func (b *Functions) release(ctx context.Context, cause, id string) error {
	var cl record.Cluster
	err := b.txns.Transact(ctx, events.FnProvision, cause+"/release", false, func(u *txn.Unit) error {
		var found bool
		var err error
		if cl, found, err = recordcache.Get[record.Cluster](u, record.ClusterKey(id)); err != nil || !found {
			cl = record.Cluster{}
			return record.OrSkip(err)
		}
		if attempt.ReleasedByOther(cl, cause, b.cfg.StuckFor, u.Now) {
			cl = record.Cluster{}
			return record.ErrSkip
		}
		if cl.Released() && cl.State != record.ClusterLaunching {
			return record.ErrSkip // a launch in progress is continued, because nothing else would end its machines
		}
		return u.Apply(attempt.DecideReleasing(&cl, u.Now))
	})
	if err != nil || cl.ID == "" {
		return err
	}
	if err := b.terminateOnCloud(ctx, cl); err != nil {
		return b.releaseFailed(ctx, cause, id, err)
	}
	gone := b.txns.Now() // the time is taken here: machines that are gone cost nothing, however long the store takes
	if err := b.uploads.End(ctx, id); err != nil {
		return err
	}
	return b.txns.Transact(ctx, events.FnProvision, cause+"/released", false, func(u *txn.Unit) error {
		cl, made, found, err := attempt.LoadReleased(u, id, gone)
		if err != nil || !found {
			return record.OrSkip(err)
		}
		if err := b.freeQuota(u, cl); err != nil {
			return err
		}
		return u.Apply(attempt.DecideReleased(cl, made, gone))
	})
}

// releaseFailed returns the error with which an event is delivered again, unless another event repeats the release.
func (b *Functions) releaseFailed(ctx context.Context, cause, id string, failure error) error {
	other := false
	err := b.txns.Transact(ctx, events.FnProvision, cause+"/failed", false, func(u *txn.Unit) error {
		cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(id))
		other = err == nil && (!found || attempt.ReleasedByOther(cl, cause, b.cfg.StuckFor, u.Now))
		if err != nil || other {
			return record.OrSkip(err)
		}
		return u.Apply(attempt.DecideReleaseFailed(cl, cause, u.Now))
	})
	if err == nil && other {
		return nil
	}
	return fmt.Errorf("%w: terminate %s: %w", errAgain, id, failure)
}

// quotaHint is the time until which a quota may block offers, as far as this process knows. It saves a read of the
// blocks at each release; there are nearly never any. If this process has not seen a block, it does not end it:
// another process does, or the block ends by itself.
type quotaHint struct{ until atomic.Int64 } // Unix time, ns

func (h *quotaHint) see(until time.Time) {
	if until.IsZero() {
		return
	}
	for {
		old := h.until.Load()
		if until.UnixNano() <= old || h.until.CompareAndSwap(old, until.UnixNano()) {
			return
		}
	}
}

func (h *quotaHint) blocks(now time.Time) bool { return now.UnixNano() < h.until.Load() }

// freeQuota ends the blocks of the quota that the machines of a released cluster used.
func (b *Functions) freeQuota(u *txn.Unit, cl record.Cluster) error {
	if cl.Launched.IsZero() || cl.Assigned() || !b.quota.blocks(u.Now) {
		return nil
	}
	known, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
	if err != nil {
		return err
	}
	return u.Apply(attempt.DecideQuotaFreed(cl.Offer, known, u.Now))
}

// kept reports whether a cluster is kept although its task has failed. It is released when the time of keeping ends.
func (b *Functions) kept(ctx context.Context, id string) (bool, error) {
	u := b.txns.NewUnit(ctx, events.FnProvision)
	cl, _, err := recordcache.Get[record.Cluster](u, record.ClusterKey(id))
	return cl.Kept(u.Now), err
}

// releaseJob releases every cluster of an ending job, except kept clusters if the job has failed (was not cancelled).
func (b *Functions) releaseJob(ctx context.Context, cause string, e events.DAGEnding) error {
	u := b.txns.NewUnit(ctx, events.FnProvision)
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(e.Job), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	// Each cluster has its own event, so that a failure of one cloud does not delay the others.
	for len(clusters) > 0 {
		n := min(len(clusters), txn.Full)
		part := clusters[:n]
		clusters = clusters[n:]
		err := b.txns.Transact(ctx, events.FnProvision, cause+"/all/"+part[0].ID, false, func(u *txn.Unit) error {
			var d record.Decision
			for _, cl := range part {
				if cl.Kept(u.Now) && e.Outcome == string(apitypes.JobFailed) {
					continue
				}
				if cl.State != record.ClusterReleasing && cl.State != record.ClusterLaunching {
					d.Emit(events.ClusterRelease{Cluster: cl.ID, Job: cl.Job, Reason: "the job is ending"})
				}
			}
			return u.Apply(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
