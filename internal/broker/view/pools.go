package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Pools lists the pools with their machines and the tasks on them.
func (b *Views) Pools(ctx context.Context) ([]apitypes.PoolView, error) {
	u := b.txns.NewUnit(ctx, "api")
	pools, err := recordcache.List[record.Pool](u, record.PartPools, "", 0)
	if err != nil {
		return nil, err
	}
	views := make([]apitypes.PoolView, 0, len(pools))
	for _, p := range pools {
		v, err := b.poolView(u, p)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// PoolView loads a pool with its machines. It fails with ErrNotFound.
func (b *Views) PoolView(ctx context.Context, name string) (apitypes.PoolView, error) {
	u := b.txns.NewUnit(ctx, "api")
	p, err := pool.LoadPool(u, name)
	if err != nil {
		return apitypes.PoolView{}, err
	}
	return b.poolView(u, p)
}

func (b *Views) poolView(u *txn.Unit, p record.Pool) (apitypes.PoolView, error) {
	v := apitypes.PoolView{
		Name: p.Name, Place: p.Place, USDPerHour: p.USDPerHour, Partitions: p.Partitions, Description: p.Description,
		Draining: p.Draining, Created: p.Created, Machines: []apitypes.MachineView{},
	}
	parts, err := b.pools.Parts(u.Ctx, p.Name)
	if err != nil {
		return v, err
	}
	for _, s := range parts {
		for _, m := range s.Machines {
			mv, err := b.machineView(u, m, s.Seen[m.ID])
			if err != nil {
				return v, err
			}
			v.Machines = append(v.Machines, mv)
			v.Capacity.Add(m.Capacity)
			v.Used.Add(mv.Used)
		}
	}
	slices.SortFunc(v.Machines, func(x, y apitypes.MachineView) int { return strings.Compare(x.ID, y.ID) })
	return v, nil
}

func (b *Views) machineView(u *txn.Unit, m record.PoolMachine, seen time.Time) (apitypes.MachineView, error) {
	v := apitypes.MachineView{
		ID: m.ID, Type: m.Type, State: m.State(seen, b.txns.Config.Pool, u.Now), Labels: m.Labels, Capacity: m.Capacity,
		Used: m.Used(), Joined: m.Joined, Seen: seen, Tasks: []apitypes.MachineTask{},
	}
	if u.Now.Before(m.BlockedUntil) {
		v.Until, v.Reason = m.BlockedUntil, m.Reason
	}
	for _, use := range m.Uses {
		t := apitypes.MachineTask{
			Job:     record.ClusterJob(use.Cluster),
			Cluster: use.Cluster,
			Rank:    use.Rank,
			Hold:    use.Hold,
			Since:   use.Since,
		}
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(t.Job))
		if err != nil {
			return v, err
		}
		if found {
			spec, err := u.Spec(job)
			if err != nil {
				return v, err
			}
			t.JobName = job.Name
			if i, _, ok := record.ClusterAttempt(use.Cluster); ok && i < len(spec.Tasks) {
				t.Task = spec.Tasks[i].Name
			}
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v, nil
}
