package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Keeper keeps the pools: who they are, which machines they have, and what those run.
type Keeper struct {
	*unit.Loader
	tokens func(wire.Claims) (string, error)
	known  poolsKnown
}

// New makes a keeper of the pools in a store. Whoever commits units tells it by noted.
func New(l *unit.Loader, tokens func(wire.Claims) (string, error)) *Keeper {
	b := &Keeper{Loader: l, tokens: tokens}
	l.Conflicted = b.known.conflicted
	return b
}

// Noted takes over what a unit that was committed has written of pools.
func (b *Keeper) Noted(u *unit.Unit) { b.known.committed(u) }

// Driver is the driver of pools: what schedule has assigned is a cluster as soon as it is asked for.
func (b *Keeper) Driver() cloud.Cloud { return Cloud{b} }

// SetPool creates a pool or changes its settings. It fails with ErrPool.
func (b *Keeper) SetPool(ctx context.Context, name string, s record.PoolSettings) error {
	if err := s.Check(name); err != nil {
		return err
	}
	err := b.Transact(ctx, fnPool, "pool/"+name+"/"+b.Now().Format(time.RFC3339Nano), false, func(u *unit.Unit) error {
		pools, err := book.List[record.Pool](u, record.PartPools, "", 0)
		if err != nil {
			return err
		}
		p, found, err := book.Get[record.Pool](u, record.PoolKey(name))
		if err != nil {
			return err
		}
		if !found && len(pools) >= record.MaxPools {
			return fmt.Errorf("%w: there are %d pools, and can be no more", record.ErrPool, len(pools))
		}
		if s.Partitions == 0 {
			s.Partitions = record.DefaultPartitions
			if found {
				s.Partitions = p.Partitions
			}
		}
		if found && p.Partitions != s.Partitions {
			machines, err := b.poolMachines(u, p)
			if err != nil {
				return err
			}
			if len(machines) > 0 {
				return fmt.Errorf("%w: partitions: %s has %d machines in %d partitions; their number can change only "+
					"while it has none", record.ErrPool, name, len(machines), p.Partitions)
			}
		}
		if !found {
			p = record.Pool{Name: name, Created: u.Now}
		}
		p.PoolSettings = s
		var d record.Decision
		d.Put(record.PoolKey(name), p)
		return u.Apply(d)
	})
	b.known.forget()
	return err
}

// RemovePool removes a pool. It fails with ErrNotFound, or with ErrPoolBusy while something runs there.
func (b *Keeper) RemovePool(ctx context.Context, name string) error {
	err := b.Transact(ctx, fnPool, "pool/"+name+"/remove", false, func(u *unit.Unit) error {
		p, found, err := book.Get[record.Pool](u, record.PoolKey(name))
		if err != nil || !found {
			return record.NotFound(err, "pool "+name)
		}
		machines, err := b.poolMachines(u, p)
		if err != nil {
			return err
		}
		if len(machines) > 0 {
			return fmt.Errorf("%w: %s has %d machines: remove them first", record.ErrPoolBusy, name, len(machines))
		}
		var d record.Decision
		d.Del(record.PoolKey(name))
		for i := range min(p.Partitions, unit.Full) {
			if u.Knows(record.PartitionKey(name, i)) {
				d.Del(record.PartitionKey(name, i))
			}
		}
		return u.Apply(d)
	})
	b.known.forget()
	return err
}

// poolMachines loads the machines of a pool.
func (b *Keeper) poolMachines(u *unit.Unit, p record.Pool) ([]record.PoolMachine, error) {
	parts, err := b.partitions(u, p)
	var out []record.PoolMachine
	for _, part := range parts {
		out = append(out, part.Machines...)
	}
	return out, err
}

// partitions loads those partitions of a pool that have been written, by index.
func (b *Keeper) partitions(u *unit.Unit, p record.Pool) ([]record.Partition, error) {
	var out []record.Partition
	keys := make([]store.Key, p.Partitions)
	for i := range keys {
		keys[i] = record.PartitionKey(p.Name, i)
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for i := range keys {
		part, found, err := book.Get[record.Partition](u, keys[i])
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, part)
		}
	}
	return out, nil
}

// fnPool is the source of what the owners and the machines of pools do.
const fnPool = "pool"
