package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Keeper manages the pools, their machines, and the tasks on the machines.
type Keeper struct {
	txns   *txn.Transactor
	known  *Known
	tokens func(wire.Claims) (string, error)
	policy func(context.Context) *scheduler.Policy
}

// New returns a keeper of the pools in a store. The hooks of txns must report every committed or conflicting unit to
// known. policy returns the scheduling policy, which may define time windows of machines; policy may be nil.
func New(txns *txn.Transactor, known *Known, tokens func(wire.Claims) (string, error),
	policy func(context.Context) *scheduler.Policy) *Keeper {
	return &Keeper{txns: txns, known: known, tokens: tokens, policy: policy}
}

// Driver is the cloud driver of pools.
func (b *Keeper) Driver() cloud.Cloud { return Cloud{b} }

// SetPool creates a pool or changes its settings. It fails with ErrPool.
func (b *Keeper) SetPool(ctx context.Context, name string, s record.PoolSettings) error {
	if err := s.Check(name); err != nil {
		return err
	}
	cause := "pool/" + name + "/" + b.txns.Now().Format(time.RFC3339Nano)
	err := b.txns.Transact(ctx, fnPool, cause, false, func(u *txn.Unit) error {
		p, found, err := recordcache.Get[record.Pool](u, record.PoolKey(name))
		if err != nil {
			return err
		}
		if !found {
			pools, err := recordcache.List[record.Pool](u, record.PartPools, "", 0)
			if err != nil {
				return err
			}
			if len(pools) >= record.MaxPools {
				return fmt.Errorf("%w: there are already %d pools, the maximum", record.ErrPool, len(pools))
			}
			p = record.Pool{Name: name, Created: u.Now}
		}
		s.Partitions = cmp.Or(s.Partitions, p.Partitions, record.DefaultPartitions)
		if found && p.Partitions != s.Partitions {
			machines, err := machinesOf(u, p)
			if err != nil {
				return err
			}
			if machines > 0 {
				return fmt.Errorf("%w: partitions: %s has %d machines in %d partitions; their number can change only "+
					"while it has none", record.ErrPool, name, machines, p.Partitions)
			}
		}
		p.PoolSettings = s
		var d record.Decision
		d.Put(record.PoolKey(name), p)
		return u.Apply(d)
	})
	b.known.forget()
	return err
}

// RemovePool removes a pool. It fails with ErrNotFound, or with ErrPoolBusy if it still has machines.
func (b *Keeper) RemovePool(ctx context.Context, name string) error {
	err := b.txns.Transact(ctx, fnPool, "pool/"+name+"/remove", false, func(u *txn.Unit) error {
		p, err := LoadPool(u, name)
		if err != nil {
			return err
		}
		machines, err := machinesOf(u, p)
		if err != nil {
			return err
		}
		if machines > 0 {
			return fmt.Errorf("%w: %s has %d machines: remove them first", record.ErrPoolBusy, name, machines)
		}
		var d record.Decision
		d.Del(record.PoolKey(name))
		for i := range min(p.Partitions, txn.Full) {
			if u.Knows(record.PartitionKey(name, i)) {
				d.Del(record.PartitionKey(name, i))
			}
		}
		return u.Apply(d)
	})
	b.known.forget()
	return err
}

// LoadPool loads a pool. It fails with ErrNotFound.
func LoadPool(u *txn.Unit, name string) (record.Pool, error) {
	p, found, err := recordcache.Get[record.Pool](u, record.PoolKey(name))
	if !found {
		err = record.NotFound(err, "pool "+name)
	}
	return p, err
}

// machinesOf counts the machines of a pool.
func machinesOf(u *txn.Unit, p record.Pool) (n int, err error) {
	parts, err := partitions(u, p)
	for _, part := range parts {
		n += len(part.Machines)
	}
	return n, err
}

// partitions loads the written partitions of a pool by index: all, or those of the given machines.
func partitions(u *txn.Unit, p record.Pool, machines ...string) (out []record.Partition, err error) {
	var keys []store.Key
	indexes := p.PartitionsOf(machines)
	for i := range p.Partitions {
		if len(machines) == 0 || slices.Contains(indexes, i) {
			keys = append(keys, record.PartitionKey(p.Name, i))
		}
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		part, found, err := recordcache.Get[record.Partition](u, key)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, part)
		}
	}
	return out, nil
}

// fnPool is the source of the transactions of owners and machines of pools.
const fnPool = "pool"
