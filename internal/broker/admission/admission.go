// Package admission runs the sessions of package session. A session only decides. This package loads the records,
// pools and policy that a session needs, in a unit that then commits the session's decision.
package admission

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Runner runs sessions within units, and loads the records that each session asks for.
type Runner struct {
	Config config.Config
	// Policy returns the current policy, and never nil: see Following.
	Policy func(context.Context) *scheduler.Policy
	Mover  config.Mover
	Pools  *pool.Keeper
	Paused func() string // may be nil
}

// PausedBecause returns the reason why no task is admitted at present, or "" if tasks are admitted.
func (r *Runner) PausedBecause() string {
	if r.Paused == nil {
		return ""
	}
	return r.Paused()
}

// Following returns the policy that follow returns, or session.OwnPolicy if follow is nil or returns nil.
func Following(follow func(context.Context) *scheduler.Policy) func(context.Context) *scheduler.Policy {
	return func(ctx context.Context) *scheduler.Policy {
		if follow != nil {
			if p := follow(ctx); p != nil {
				return p
			}
		}
		return session.OwnPolicy()
	}
}

// Run runs one session for a queue and the queues that share a quota with it. If a session lacked records, Run loads
// them and calls decide again with a new session.
func (r *Runner) Run(u *txn.Unit, queue string, decide func(*session.Session) error) error {
	in := session.Input{Config: r.Config, Policy: r.Policy(u.Ctx), Mover: r.Mover}
	return u.Draft(func(d *recordcache.Draft) error {
		s, err := session.New(in, d, queue)
		if err != nil {
			return err
		}
		return decide(s)
	}, func(l recordcache.Missing) error {
		in.Fresh = append(in.Fresh, l.Fresh...)
		pools, records, err := r.Pools.PoolsNow(u.Ctx, u.Now, l.Fresh...)
		in.Pools = &pools
		for _, r := range records {
			if len(l.Fresh) > 0 {
				u.Reseed(r)
			} else {
				u.Seed(r)
			}
		}
		return err
	})
}
