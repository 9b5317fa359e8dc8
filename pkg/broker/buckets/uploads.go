package buckets

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/atonce"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Uploads are those in parts that attempts have begun.
type Uploads struct {
	Txns   *unit.Transactor
	Data   grant.Store // nil has none
	AtOnce int         // how many are aborted at once
	Log    *slog.Logger
}

// A store that does not answer holds up no release: what cannot be aborted in time is left to the bucket's rule.
const (
	abortWithin = 20 * time.Second // all of them
	abortTries  = 3
	abortPause  = 200 * time.Millisecond
)

// End aborts what a cluster has begun to upload, when its machines are gone.
func (l Uploads) End(ctx context.Context, cluster string) error {
	if l.Data == nil {
		return nil
	}
	u := l.Txns.NewUnit(ctx, events.FnProvision)
	part := record.JobPart(record.ClusterJob(cluster))
	left, err := book.List[record.Upload](u, part, record.UploadPrefix(cluster), 0)
	if err != nil || len(left) == 0 {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, abortWithin)
	defer cancel()
	keys, failed := make([]record.Key, len(left)), make([]error, len(left))
	atonce.Each(l.AtOnce, len(left), func(i int) {
		keys[i] = record.UploadKey(cluster, left[i])
		failed[i] = l.abort(bounded, left[i])
	})
	if ctx.Err() != nil {
		return ctx.Err() // we were stopped, not the store
	}
	if failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil }); len(failed) > 0 {
		l.Log.Warn("uploads could not be aborted", "cluster", cluster, "uploads", len(failed), "err", failed[0])
	}
	return l.Forget(ctx, cluster, keys...)
}

func (l Uploads) abort(ctx context.Context, up record.Upload) (err error) {
	for range abortTries {
		if err = l.Data.Abort(ctx, up.URI, up.Upload); err == nil || clock.Pause(ctx, abortPause) != nil {
			return err
		}
	}
	return err
}

// Forget removes the records of uploads that have ended.
func (l Uploads) Forget(ctx context.Context, cluster string, keys ...record.Key) error {
	for some := range slices.Chunk(keys, record.MaxItems) {
		err := l.Txns.Transact(ctx, "agent", "uploaded/"+cluster, false, func(u *unit.Unit) error {
			var d record.Decision
			for _, key := range some {
				d.Del(key)
			}
			return u.Apply(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
