// Package buckets makes the buckets that jobs ask for, and removes those that were made for jobs which are over. It
// ends the uploads that attempts leave behind.
package buckets

import (
	"context"
	"errors"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/life"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Keeper makes and removes buckets.
type Keeper struct {
	Txns *unit.Transactor
	Data grant.Store // nil makes and removes none
}

// ErrRemoving is of a bucket that a job asks for and that is being removed. It passes.
var ErrRemoving = errors.New("the bucket is being removed, as the jobs that it was made for are over")

// Make makes the buckets that a task asks for and that are not there, before a machine is bought for it. Those that are
// removed again are recorded first. What will never be made is a *cloud.Error that is Invalid; all else passes,
// ErrRemoving among it, and says nothing of where the machine is to be bought.
func (k Keeper) Make(ctx context.Context, job string, t *dag.Task) error {
	for i := range t.Inputs {
		in := &t.Inputs[i]
		if in.Bucket == dag.BucketThere || t.StandIn() || k.Data == nil {
			continue
		}
		bucket, err := grant.BucketOf(in.URI)
		if err != nil {
			return cloud.Errorf("storage", cloud.Invalid, "BadBucket", "%v", err)
		}
		err = k.make(ctx, job, bucket, in.Bucket)
		switch {
		case errors.Is(err, grant.ErrNoBucket), errors.Is(err, errors.ErrUnsupported),
			errors.Is(err, grant.ErrCredentials):
			return cloud.Errorf("storage", cloud.Invalid, "NoBucket", "%v", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// make makes one bucket. Whether it is there is asked after its record was read: who removes it writes that before, and
// drops it after.
func (k Keeper) make(ctx context.Context, job, bucket string, lasts dag.Bucket) error {
	there := false
	err := k.Txns.Transact(ctx, events.FnProvision, "bucket/"+job+"/"+bucket, false, func(u *unit.Unit) error {
		was, known, err := book.Get[record.Bucket](u, record.BucketKey(bucket))
		if err != nil {
			return err
		}
		if was.Removing {
			return ErrRemoving
		}
		_, err = k.Data.List(ctx, bucket, "")
		if there = err == nil; err != nil && !errors.Is(err, grant.ErrNoBucket) {
			return err
		}
		return u.Apply(life.DecideBucket(was, known, there, bucket, job, lasts, u.Now))
	})
	if err != nil || there {
		return err
	}
	return grant.MakeBucket(ctx, k.Data, bucket)
}

// Remove removes the buckets that were made for jobs which have all ended.
func (k Keeper) Remove(ctx context.Context, cause string) error {
	if k.Data == nil {
		return nil
	}
	u := k.Txns.NewUnit(ctx, events.FnReconcile)
	made, err := book.List[record.Bucket](u, record.PartBuckets, "", 0)
	errs := []error{err}
	for _, bucket := range made {
		over, err := allOver(u, bucket.Jobs)
		if err == nil && over {
			err = k.remove(ctx, cause+"/bucket/"+bucket.URI, bucket)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// remove removes a bucket, unless another job has come. None does from the first note until it is gone: what a job
// wrote there meanwhile would be removed, too.
func (k Keeper) remove(ctx context.Context, cause string, bucket record.Bucket) error {
	ours := false
	note := func(gone bool) error {
		return k.Txns.Transact(ctx, events.FnReconcile, cause, false, func(u *unit.Unit) error {
			now, found, err := book.Get[record.Bucket](u, record.BucketKey(bucket.URI))
			if ours = err == nil && found && slices.Equal(now.Jobs, bucket.Jobs); !ours {
				return record.OrSkip(err)
			}
			return u.Apply(life.DecideRemoving(now, gone))
		})
	}
	if err := note(false); err != nil || !ours {
		return err
	}
	if err := grant.RemoveBucket(ctx, k.Data, bucket.URI); err != nil {
		return err
	}
	return note(true)
}

// allOver says whether jobs have ended, with all of their machines gone.
func allOver(u *unit.Unit, jobs []string) (bool, error) {
	for _, id := range jobs {
		job, found, err := book.Get[record.Job](u, record.JobKey(id))
		if err != nil || found && !job.State.Over() {
			return false, err
		}
	}
	return true, nil
}
