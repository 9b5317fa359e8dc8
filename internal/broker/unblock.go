package broker

import (
	"context"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Unblock removes the blocks of clouds that refused the broker's calls or had no quota: a check has shown that they
// accept calls now, and its user may have raised the quota. Blocks for lack of capacity stay.
func (b *Users) Unblock(ctx context.Context, clouds ...string) error {
	return b.commitRequest(ctx, "unblock", func(u *txn.Unit) (d record.Decision, err error) {
		known, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
		if err != nil {
			return d, err
		}
		found := false
		for _, k := range known {
			lifted := k.Kind == string(cloud.Auth) || k.Kind == string(cloud.Quota)
			if lifted && slices.Contains(clouds, k.Cloud) {
				d.Del(record.BlockKey(k))
				found = true
			}
		}
		if !found {
			return d, nil
		}
		return d, replanWaiting(u, &d)
	})
}

// replanned is the maximum number of waiting jobs that a check makes the broker plan again at once. Reconcile plans the
// others again when their time comes.
const replanned = 50

// replanWaiting announces that waiting jobs are to be planned again: a block for which they wait may be gone.
func replanWaiting(u *txn.Unit, d *record.Decision) error {
	index, err := recordcache.List[record.JobIndex](u, record.PartActive, "", replanned)
	if err != nil {
		return err
	}
	for _, one := range index {
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(one.ID))
		if err != nil {
			return err
		}
		if found && job.State == apitypes.JobWaiting {
			d.Emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: "a check has lifted blocks"})
		}
	}
	return nil
}
