package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// SetQueue creates a queue or changes its settings, but not its use. It fails with ErrQueue.
func (b *Users) SetQueue(ctx context.Context, name string, s record.QueueSettings) error {
	return b.commitRequest(ctx, "queue/"+name, func(u *txn.Unit) (record.Decision, error) {
		return session.DecideSetQueue(u, b.cfg, name, s)
	})
}

// SetPool creates a pool or changes its settings. It fails with ErrPool.
func (b *Users) SetPool(ctx context.Context, name string, s record.PoolSettings) error {
	return b.pools.SetPool(ctx, name, s)
}

// RemovePool removes a pool. It fails with ErrNotFound, or with ErrPoolBusy while it has machines.
func (b *Users) RemovePool(ctx context.Context, name string) error {
	return b.pools.RemovePool(ctx, name)
}

// DrainMachine drains a machine of a pool, or the whole pool if machine is empty. It fails with ErrNotFound, or
// ErrPool.
func (b *Users) DrainMachine(ctx context.Context, name, machine string, how apitypes.Drain) error {
	return b.pools.DrainMachine(ctx, name, machine, how)
}

// RemoveMachine removes a machine from its pool. Its token is not accepted any more. It fails with ErrNotFound, or
// with ErrPoolBusy while a task runs there.
func (b *Users) RemoveMachine(ctx context.Context, pool, machine string) error {
	return b.pools.RemoveMachine(ctx, pool, machine)
}

// SyncMachine processes the report of a pool's machine, and returns the agents that should run there (see
// pool.Keeper.SyncMachine).
func (b *Agents) SyncMachine(ctx context.Context, m wire.PoolClaims, r wire.PoolReport) (wire.PoolOrders, error) {
	return b.pools.SyncMachine(ctx, m, r)
}

// ActiveJobs lists the jobs that have not finished.
func (b *Functions) ActiveJobs(ctx context.Context) ([]string, error) { return b.txns.ActiveJobs(ctx) }
