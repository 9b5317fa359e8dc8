package broker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/parallel"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Uploads manages the multipart uploads that attempts have begun.
type Uploads struct {
	Txns   *txn.Transactor
	Data   grant.Store // if nil, there are no uploads
	AtOnce int         // how many uploads are aborted at once
	Log    *slog.Logger
}

// A store that does not answer must not delay a release: uploads not aborted in time are left to the bucket's rule.
const (
	abortWithin = 20 * time.Second // for all of them together
	abortTries  = 3
	abortPause  = 200 * time.Millisecond
)

// Open reports whether a cluster has uploads that have not ended.
func (l Uploads) Open(u recordcache.Reader, cluster string) (bool, error) {
	if l.Data == nil {
		return false, nil
	}
	part := record.JobPart(record.ClusterJob(cluster))
	left, err := recordcache.List[record.Upload](u, part, record.UploadPrefix(cluster), 1)
	return len(left) > 0, err
}

// End aborts a cluster's open uploads when its machines are gone.
func (l Uploads) End(ctx context.Context, cluster string) error {
	if l.Data == nil {
		return nil
	}
	u := l.Txns.NewUnit(ctx, events.FnProvision)
	part := record.JobPart(record.ClusterJob(cluster))
	left, err := recordcache.List[record.Upload](u, part, record.UploadPrefix(cluster), 0)
	if err != nil || len(left) == 0 {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, abortWithin)
	defer cancel()
	keys, failed := make([]record.Key, len(left)), make([]error, len(left))
	parallel.Each(l.AtOnce, len(left), func(i int) {
		keys[i] = record.UploadKey(cluster, left[i])
		failed[i] = l.abort(bounded, left[i])
	})
	if ctx.Err() != nil {
		return ctx.Err() // our own context ended; the store did not fail
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
		err := l.Txns.Transact(ctx, "agent", "uploaded/"+cluster, false, func(u *txn.Unit) error {
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
