package broker

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Drain is how a machine is emptied.
type Drain string

// The ways to drain.
const (
	DrainSoon Drain = "drain" // it gets nothing new; what runs there ends
	DrainNow  Drain = "now"   // and what runs there saves its work, stops, and goes on elsewhere
	DrainUndo Drain = "undo"  // it may get something again
)

// DrainMachine drains a machine of a pool, or the whole pool where machine is empty. It fails with ErrNotFound, or ErrPool.
func (b *Keeper) DrainMachine(ctx context.Context, pool, machine string, how Drain) error {
	if how != DrainSoon && how != DrainNow && how != DrainUndo {
		return fmt.Errorf("%w: how: %q is not %s, %s or %s", ErrPool, how, DrainSoon, DrainNow, DrainUndo)
	}
	p, err := b.drainPool(ctx, pool, machine, how)
	if err != nil {
		return err
	}
	first, last := 0, p.Partitions
	if machine != "" {
		first = p.partitionOf(machine)
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
	if how != DrainNow {
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
	return "the owner of " + machineName(pool, machine) + " wants it back"
}

// machineName names a machine of a pool as people write it: lab/m1; or the pool, where no machine is named.
func machineName(pool, machine string) string {
	if machine == "" {
		return pool
	}
	return pool + "/" + machine
}

// drainPool marks the pool itself, where all of it is meant.
func (b *Keeper) drainPool(ctx context.Context, pool, machine string, how Drain) (p Pool, err error) {
	err = b.transact(ctx, fnPool, "drain/"+pool+"/"+b.now().Format(time.RFC3339Nano), false, func(u *unit) error {
		var found bool
		var err error
		if p, found, err = get[Pool](u, poolKey(pool)); err != nil || !found {
			return notFound(err, "pool "+pool)
		}
		if machine != "" || p.Draining == (how != DrainUndo) {
			return errSkip
		}
		p.Draining = how != DrainUndo
		var d Decision
		d.put(poolKey(pool), p)
		return u.apply(d)
	})
	return p, err
}

// drainPartition marks the machine in a partition, or all of them, and returns the clusters there. All are marked though the pool is, so that a session that
// knows nothing of it yet conflicts.
func (b *Keeper) drainPartition(ctx context.Context, p Pool, index int, machine string, how Drain) (clusters []string, err error) {
	err = b.transact(ctx, fnPool, fmt.Sprintf("drain/%s/%d", p.Name, index), false, func(u *unit) error {
		clusters = nil
		part, _, err := get[Partition](u, partitionKey(p.Name, index))
		if err != nil {
			return err
		}
		if _, found := part.machine(machine); machine != "" && !found {
			return notFound(nil, "machine "+machineName(p.Name, machine))
		}
		changed := false
		for i := range part.Machines {
			m := &part.Machines[i]
			if machine != "" && m.ID != machine {
				continue
			}
			changed = changed || m.Draining != (how != DrainUndo) || m.Vacate != (how == DrainNow)
			m.Draining, m.Vacate = how != DrainUndo, how == DrainNow
			for _, use := range m.Uses {
				clusters = append(clusters, use.Cluster)
			}
		}
		if !changed {
			return errSkip
		}
		var d Decision
		d.put(partitionKey(p.Name, index), part)
		return u.apply(d)
	})
	return clusters, err
}

// vacate has a cluster save its work and stop, or gives it up if it has not begun.
func (b *Keeper) vacate(ctx context.Context, id, reason string) error {
	return b.transact(ctx, fnPool, "vacate/"+id, false, func(u *unit) error {
		l, found, err := loadLosing(u, id)
		if err != nil || !found {
			return orSkip(err)
		}
		return u.apply(decideVacate(l, b.cfg, reason, u.now))
	})
}

// LeaveMachine is the reason to leave a machine that its owner wants back.
const LeaveMachine Leaving = "machine"

// decideVacate has a cluster save its work and stop for the good of its machines' owner. One that runs nothing yet is given up at once.
func decideVacate(l losing, cfg Config, reason string, now time.Time) (d Decision) {
	switch {
	case l.cl.Outcome != "" || l.cl.State == ClusterDoomed || l.cl.State == ClusterReleasing || l.cl.State == ClusterLaunching:
		return d // it ends by itself, or is looked at again when it has begun
	case l.cl.State == ClusterUp && l.task.State == TaskRunning && l.task.Attempt == l.cl.Attempt:
		return decideLeave(l.cl, LeaveMachine, reason, cfg.Overhead, now)
	default:
		l.cl.Leaving = LeaveMachine
		return decideLost(l, OutcomeMoved, reason, now)
	}
}

// blame keeps the machines of a pool that have not brought up their part of a cluster in time from getting anything new for a while.
func (b *Keeper) blame(u *unit, cl Cluster) error {
	p, found, err := get[Pool](u, poolKey(cl.Offer.Region))
	if err != nil || !found {
		return err
	}
	var d Decision
	for _, index := range p.partitionsOf(cl.Hosts) {
		part, _, err := get[Partition](u, partitionKey(p.Name, index))
		if err != nil {
			return err
		}
		for rank, host := range cl.Hosts {
			if i, here := part.machine(host); here && cl.Nodes[rank].Address == "" {
				part.Machines[i].fail("no agent of "+cl.ID+" has dialled home", b.cfg.Pool.BlockFor, u.now)
				d.put(partitionKey(p.Name, index), part)
			}
		}
	}
	return u.apply(d)
}

// RemoveMachine takes a machine out of its pool; it is not let in again by what it has joined with. It fails with ErrNotFound, or with ErrPoolBusy while
// something holds it.
func (b *Keeper) RemoveMachine(ctx context.Context, pool, machine string) error {
	return b.transact(ctx, fnPool, "remove/"+pool+"/"+machine, false, func(u *unit) error {
		p, found, err := get[Pool](u, poolKey(pool))
		if err != nil || !found {
			return notFound(err, "pool "+pool)
		}
		index := p.partitionOf(machine)
		part, _, err := get[Partition](u, partitionKey(pool, index))
		if err != nil {
			return err
		}
		i, found := part.machine(machine)
		if !found {
			return notFound(nil, "machine "+machineName(pool, machine))
		}
		if n := len(part.Machines[i].Uses); n > 0 {
			return fmt.Errorf("%w: %s runs %d tasks: drain it first", ErrPoolBusy, machineName(pool, machine), n)
		}
		part.Machines = slices.Delete(part.Machines, i, i+1)
		part.Removed = slices.DeleteFunc(part.Removed, func(x RemovedMachine) bool {
			return x.ID == machine || u.now.Sub(x.At) > b.cfg.TokenFor
		})
		part.Removed = append(part.Removed, RemovedMachine{ID: machine, At: u.now})
		var d Decision
		d.put(partitionKey(pool, index), part)
		d.del(beatKey(pool, index, machine))
		return u.apply(d)
	})
}
