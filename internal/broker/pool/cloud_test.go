package pool

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestPoolCloudConforms runs the conformance suite of clouds on the driver of pools. Like the schedule function, it
// assigns machines once before a launch.
func TestPoolCloudConforms(t *testing.T) {
	cloudtest.Run(t, func(ctx context.Context, _ *testing.T) (cloudtest.Harness, error) {
		b := PoolBroker(func() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) })
		if err := b.SetPool(ctx, "lab", record.PoolSettings{Partitions: 3}); err != nil {
			return nil, err
		}
		for i := range 6 {
			m := wire.PoolClaims{Pool: "lab", Machine: fmt.Sprint("m", i), Joined: b.txns.Now()}
			r := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: 64, MemoryGiB: 64}}
			if _, err := b.SyncMachine(ctx, m, r); err != nil {
				return nil, err
			}
		}
		h := &poolHarness{b: b, known: map[string]bool{}}
		h.Driver = assigning{Cloud: b.Driver(), h: h}
		return h, nil
	})
}

func PoolBroker(now func() time.Time) *Keeper {
	known := NewKnown()
	txns := txn.NewTransactor(mem.New(), now, config.Default(),
		txn.Hooks{Done: known.Committed, Conflicted: known.Conflicted})
	return New(txns, known, func(wire.Claims) (string, error) { return "token", nil }, nil)
}

type poolHarness struct {
	b      *Keeper
	Driver cloud.Cloud
	mu     sync.Mutex
	known  map[string]bool // clusters that have been assigned, or terminated
}

func (h *poolHarness) Cloud() cloud.Cloud { return h.Driver }

func (h *poolHarness) Offer() apitypes.Offer {
	return apitypes.Offer{Cloud: apitypes.PoolCloud, Region: "lab", InstanceType: DefaultMachineType}
}

func (h *poolHarness) Bootstrap(_ string, nodes int) cloud.Bootstrap {
	return cloud.Bootstrap{Tokens: make([]string, nodes)}
}

func (h *poolHarness) Fail(apitypes.Offer, *cloud.Error) bool { return false }

func (h *poolHarness) Settle(context.Context) {}

func (h *poolHarness) Close() {}

func (h *poolHarness) Left(ctx context.Context) (int, error) {
	parts, err := h.b.Parts(ctx, "lab")
	n := 0
	for _, part := range parts {
		for _, m := range part.Machines {
			n += len(m.Uses)
		}
	}
	return n, err
}

// assign assigns machines to a cluster at its first launch.
func (h *poolHarness) assign(ctx context.Context, spec cloud.LaunchSpec) error {
	h.mu.Lock()
	defer h.mu.Unlock() // the assignments are committed before the launch
	if h.known[spec.Cluster] {
		return nil
	}
	h.known[spec.Cluster] = true
	return h.b.txns.Transact(ctx, fnPool, "assign/"+spec.Cluster, false, func(u *txn.Unit) error {
		p, _, err := recordcache.Get[record.Pool](u, record.PoolKey("lab"))
		if err != nil {
			return err
		}
		var d record.Decision
		for rank := range spec.Nodes {
			host := fmt.Sprint("m", rank)
			part, _, err := recordcache.Get[record.Partition](u, record.PartitionKey("lab", p.PartitionOf(host)))
			if err != nil {
				return err
			}
			i, _ := part.Machine(host)
			part.Machines[i].Uses = append(part.Machines[i].Uses, record.PoolUse{Cluster: spec.Cluster, Rank: rank, Since: u.Now})
			d.Put(record.PartitionKey("lab", part.Index), part)
			if err := u.Apply(d); err != nil {
				return err
			}
		}
		return nil
	})
}

type assigning struct {
	cloud.Cloud
	h *poolHarness
}

func (a assigning) Launch(ctx context.Context, spec cloud.LaunchSpec) (machines []cloud.Machine, err error) {
	defer typed(&err)
	if spec.Cluster != "" && spec.Nodes > 0 && spec.Offer.Cloud == apitypes.PoolCloud && len(spec.Bootstrap.Tokens) == spec.Nodes && ctx.Err() == nil {
		if err := a.h.assign(ctx, spec); err != nil {
			return nil, err
		}
	}
	return a.Cloud.Launch(ctx, spec)
}

func (a assigning) Terminate(ctx context.Context, cluster string) error {
	a.h.mu.Lock()
	a.h.known[cluster] = true
	a.h.mu.Unlock()
	return a.Cloud.Terminate(ctx, cluster)
}
