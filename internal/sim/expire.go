package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The fraction of worlds in which jobs expire or are removed, and the fractions of their jobs.
const (
	shareExpiry  = 0.3
	shareKeep    = 0.6
	shareRemoved = 0.3
)

// drawExpiry draws whether jobs of the world expire or are removed. They do not in worlds with other bugs, so that
// these bugs show as often as without expiry.
func (u *users) drawExpiry() bool {
	b := u.w.opt.Break
	return !u.w.opt.steady && (b == "" && u.w.rand.keep.Chance(shareExpiry) ||
		slices.Contains([]breaks.Kind{breaks.Thoughtless, breaks.Reaping}, b))
}

// drawKeep draws how long a job is kept after its end, in worlds where jobs expire.
func (u *users) drawKeep(j *dag.Job, expire bool) {
	if expire && u.w.rand.keep.Chance(shareKeep) {
		j.Keep = u.w.rand.keep.Spread(dag.MinKeep, 6*time.Hour).Round(time.Second)
	}
}

// drawRemoval makes a user remove a job, in worlds where jobs expire.
func (u *users) drawRemoval(j *userJob, expire bool) {
	if expire && u.w.rand.keep.Chance(shareRemoved) {
		u.w.After(u.w.rand.keep.Between(0, 8*time.Hour), func() { u.remove(j) })
	}
}

// remove removes a job, and tries again until it has finished and the broker has accepted it.
func (u *users) remove(j *userJob) {
	again := func() { u.w.After(u.w.rand.keep.Spread(10*time.Minute, 2*time.Hour), func() { u.remove(j) }) }
	id := u.w.check.IDOf(j.Spec.Name)
	if id == "" {
		again()
		return
	}
	j.Removed = true
	u.w.network.call("remove "+id, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Users.Remove(ctx, id)
	}, func(err error) {
		if errors.Is(err, record.ErrUnfinished) {
			u.w.Count("removal of a running job refused")
		}
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			again()
		}
	})
}
