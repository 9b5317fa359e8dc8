package broker

import (
	"context"
	"slices"

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
		for _, k := range known {
			lifted := k.Kind == string(cloud.Auth) || k.Kind == string(cloud.Quota)
			if lifted && slices.Contains(clouds, k.Cloud) {
				d.Del(record.BlockKey(k))
			}
		}
		return d, err
	})
}
