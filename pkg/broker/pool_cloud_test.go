package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestPoolCloudConforms runs the suite of all clouds on the driver of pools. Its offers are assigned before they are launched, once, as schedule does.
func TestPoolCloudConforms(t *testing.T) {
	cloudtest.Run(t, func(ctx context.Context, _ *testing.T) (cloudtest.Harness, error) {
		b := poolBroker(func() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) })
		if err := b.SetPool(ctx, "lab", PoolSettings{Partitions: 3}); err != nil {
			return nil, err
		}
		for i := range 6 {
			r := MachineReport{Joined: b.now(), Capacity: Capacity{CPUs: 64, MemoryGiB: 64}}
			if _, err := b.SyncMachine(ctx, "lab", fmt.Sprint("m", i), r); err != nil {
				return nil, err
			}
		}
		h := &poolHarness{b: b, known: map[string]bool{}}
		h.Driver = assigning{Cloud: b.Driver(), h: h}
		return h, nil
	})
}

func poolBroker(now func() time.Time) *Keeper {
	b := newKeeper(newLoader(mem.New(), now, DefaultConfig()), func(wire.Claims) (string, error) { return "token", nil })
	b.committed = b.noted
	return b
}

type poolHarness struct {
	b      *Keeper
	Driver cloud.Cloud
	mu     sync.Mutex
	known  map[string]bool // clusters that were assigned, or terminated
}

func (h *poolHarness) Cloud() cloud.Cloud { return h.Driver }

func (h *poolHarness) Offer() cloud.Offer {
	return cloud.Offer{Cloud: PoolCloud, Region: "lab", InstanceType: DefaultMachineType}
}

func (h *poolHarness) Bootstrap(_ string, nodes int) cloud.Bootstrap {
	return cloud.Bootstrap{Tokens: make([]string, nodes)}
}
func (h *poolHarness) Fail(cloud.Offer, *cloud.Error) bool { return false }
func (h *poolHarness) Settle(context.Context)              {}
func (h *poolHarness) Close()                              {}

func (h *poolHarness) Left(ctx context.Context) (int, error) {
	machines, err := h.b.poolMachines(h.b.newUnit(ctx, fnPool), Pool{Name: "lab", PoolSettings: PoolSettings{Partitions: 3}})
	n := 0
	for _, m := range machines {
		n += len(m.Uses)
	}
	return n, err
}

// assign gives a cluster its machines, the first time it is heard of.
func (h *poolHarness) assign(ctx context.Context, spec cloud.LaunchSpec) error {
	h.mu.Lock()
	defer h.mu.Unlock() // a launch is asked for when its assignments are committed
	if h.known[spec.Cluster] {
		return nil
	}
	h.known[spec.Cluster] = true
	return h.b.transact(ctx, fnPool, "assign/"+spec.Cluster, false, func(u *unit) error {
		p, _, err := get[Pool](u, poolKey("lab"))
		if err != nil {
			return err
		}
		var d Decision
		for rank := range spec.Nodes {
			host := fmt.Sprint("m", rank)
			part, _, err := get[Partition](u, partitionKey("lab", p.partitionOf(host)))
			if err != nil {
				return err
			}
			i, _ := part.machine(host)
			part.Machines[i].Uses = append(part.Machines[i].Uses, PoolUse{Cluster: spec.Cluster, Rank: rank, Since: u.now})
			d.put(partitionKey("lab", part.Index), part)
			if err := u.apply(d); err != nil {
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

func (a assigning) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if spec.Cluster != "" && spec.Nodes > 0 && spec.Offer.Cloud == PoolCloud && len(spec.Bootstrap.Tokens) == spec.Nodes && ctx.Err() == nil {
		if err := a.h.assign(ctx, spec); err != nil {
			return nil, poolError(err)
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
