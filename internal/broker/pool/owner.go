package pool

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// DrainMachine drains a machine of a pool, or the whole pool if machine is empty. It fails with ErrNotFound or
// ErrPool.
func (b *Keeper) DrainMachine(ctx context.Context, pool, machine string, how apitypes.Drain) error {
	if how != apitypes.DrainSoon && how != apitypes.DrainNow && how != apitypes.DrainUndo {
		return fmt.Errorf(
			"%w: how: %q is not %s, %s or %s",
			record.ErrPool,
			how,
			apitypes.DrainSoon,
			apitypes.DrainNow,
			apitypes.DrainUndo,
		)
	}
	p, err := b.drainPool(ctx, pool, machine, how)
	if err != nil {
		return err
	}
	first, last := 0, p.Partitions
	if machine != "" {
		first = p.PartitionOf(machine)
		last = first + 1
	}
	var clusters []string
	for i := first; i < last; i++ {
		found, err := b.drainPartition(ctx, p, i, machine, how)
		if err != nil {
			return err
		}
		clusters = append(clusters, found...)
	}
	b.known.forget()
	if how != apitypes.DrainNow {
		return nil
	}
	slices.Sort(clusters)
	for _, id := range slices.Compact(clusters) {
		if err := b.vacate(ctx, id, wantsBack(pool, machine)); err != nil {
			return err
		}
	}
	return nil
}

func wantsBack(pool, machine string) string {
	return "the owner of " + machineName(pool, machine) + " takes it out of the pool"
}

// machineName returns the name of a machine for users, such as lab/m1, or the name of the pool if machine is empty.
func machineName(pool, machine string) string {
	if machine == "" {
		return pool
	}
	return pool + "/" + machine
}

// drainPool marks the pool itself, if the whole pool is drained.
func (b *Keeper) drainPool(ctx context.Context, pool, machine string, how apitypes.Drain) (p record.Pool, err error) {
	err = b.txns.Transact(
		ctx,
		fnPool,
		"drain/"+pool+"/"+b.txns.Now().Format(time.RFC3339Nano),
		false,
		func(u *txn.Unit) error {
			if p, err = LoadPool(u, pool); err != nil {
				return err
			}
			if machine != "" || p.Draining == (how != apitypes.DrainUndo) {
				return record.ErrSkip
			}
			p.Draining = how != apitypes.DrainUndo
			var d record.Decision
			d.Put(record.PoolKey(pool), p)
			return u.Apply(d)
		},
	)
	return p, err
}

// drainPartition marks the machines of a partition, or only the named one, as draining. It returns their clusters. It
// does so even if the whole pool is marked, so that a session with an old view of the pool conflicts.
func (b *Keeper) drainPartition(ctx context.Context, p record.Pool, index int, machine string,
	how apitypes.Drain) (clusters []string, err error) {
	err = b.txns.Transact(ctx, fnPool, fmt.Sprintf("drain/%s/%d", p.Name, index), false, func(u *txn.Unit) error {
		clusters = nil
		part, _, err := recordcache.Get[record.Partition](u, record.PartitionKey(p.Name, index))
		if err != nil {
			return err
		}
		if _, found := part.Machine(machine); machine != "" && !found {
			return record.NotFound(nil, "machine "+machineName(p.Name, machine))
		}
		changed := false
		for i := range part.Machines {
			m := &part.Machines[i]
			if machine != "" && m.ID != machine {
				continue
			}
			changed = changed || m.Draining != (how != apitypes.DrainUndo) || m.Vacate != (how == apitypes.DrainNow)
			m.Draining, m.Vacate = how != apitypes.DrainUndo, how == apitypes.DrainNow
			for _, use := range m.Uses {
				clusters = append(clusters, use.Cluster)
			}
		}
		if !changed {
			return record.ErrSkip
		}
		var d record.Decision
		d.Put(record.PartitionKey(p.Name, index), part)
		return u.Apply(d)
	})
	return clusters, err
}

// vacate makes a cluster save its work and stop, or ends it if it has not started.
func (b *Keeper) vacate(ctx context.Context, id, reason string) error {
	return b.txns.Transact(ctx, fnPool, "vacate/"+id, false, func(u *txn.Unit) error {
		l, found, err := attempt.LoadLosing(u, id)
		if err != nil || !found {
			return record.OrSkip(err)
		}
		return u.Apply(attempt.DecideVacate(l, b.txns.Config, reason, u.Now))
	})
}

// BlameSilent blocks the machines of a pool that have not started their agents of a cluster in time. They get no
// tasks for a while.
func (b *Keeper) BlameSilent(u *txn.Unit, cl record.Cluster) error {
	return b.Blame(u, cl, "no agent of "+cl.ID+" has dialled home",
		func(rank int) bool { return cl.Nodes[rank].Address == "" })
}

// Blame blocks the machines of a cluster for which guilty returns true. They get no tasks for a while.
func (b *Keeper) Blame(u *txn.Unit, cl record.Cluster, reason string, guilty func(rank int) bool) error {
	p, found, err := recordcache.Get[record.Pool](u, record.PoolKey(cl.Offer.Region))
	if err != nil || !found {
		return err
	}
	parts, err := partitions(u, p, cl.Hosts...)
	if err != nil {
		return err
	}
	var d record.Decision
	for _, part := range parts {
		for rank, host := range cl.Hosts {
			if i, here := part.Machine(host); here && guilty(rank) {
				part.Machines[i].Fail(reason, b.txns.Config.Pool.BlockFor, u.Now)
				d.Put(record.PartitionKey(p.Name, part.Index), part)
			}
		}
	}
	return u.Apply(d)
}

// RemoveMachine removes a machine from its pool. The machine cannot join again with its old credentials. It fails
// with ErrNotFound, or with ErrPoolBusy while a task runs on the machine.
func (b *Keeper) RemoveMachine(ctx context.Context, pool, machine string) error {
	return b.txns.Transact(ctx, fnPool, "remove/"+pool+"/"+machine, false, func(u *txn.Unit) error {
		p, err := LoadPool(u, pool)
		if err != nil {
			return err
		}
		index := p.PartitionOf(machine)
		part, _, err := recordcache.Get[record.Partition](u, record.PartitionKey(pool, index))
		if err != nil {
			return err
		}
		i, found := part.Machine(machine)
		if !found {
			return record.NotFound(nil, "machine "+machineName(pool, machine))
		}
		if n := len(part.Machines[i].Uses); n > 0 {
			return fmt.Errorf("%w: %s runs %d tasks: drain it first", record.ErrPoolBusy, machineName(pool, machine), n)
		}
		part.Machines = slices.Delete(part.Machines, i, i+1)
		part.Removed = slices.DeleteFunc(part.Removed, func(x record.RemovedMachine) bool {
			return x.ID == machine || u.Now.Sub(x.At) > b.txns.Config.TokenFor
		})
		part.Removed = append(part.Removed, record.RemovedMachine{ID: machine, At: u.Now})
		var d record.Decision
		d.Put(record.PartitionKey(pool, index), part)
		d.Del(record.BeatKey(pool, index, machine))
		return u.Apply(d)
	})
}
