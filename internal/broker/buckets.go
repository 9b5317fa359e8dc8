package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Keeper creates and removes the buckets that jobs ask for.
type Keeper struct {
	Txns *txn.Transactor
	Data grant.Store // if nil, no buckets are made or removed
}

// ErrRemoving means that a job asks for a bucket that is being removed. The caller can try again later.
var ErrRemoving = errors.New("the bucket is being removed, because the jobs for which it was created have finished")

// Make creates the missing buckets that a task asks for, before a machine is bought for it. Temporary buckets are
// recorded first. If a bucket can never be created, Make fails with an Invalid *cloud.Error. Any other error, such as
// ErrRemoving, is temporary and independent of the machine's location.
func (k Keeper) Make(ctx context.Context, job string, t *dag.Task) error {
	for i := range t.Inputs {
		in := &t.Inputs[i]
		if in.Bucket == dag.BucketExists || t.StandIn() || k.Data == nil {
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

// make creates one bucket. It first reads the bucket's record and then checks whether the bucket exists. This order
// is safe, because a remover marks the record before it removes the bucket, and deletes the record afterwards.
func (k Keeper) make(ctx context.Context, job, bucket string, lasts dag.Bucket) error {
	there := false
	err := k.Txns.Transact(ctx, events.FnProvision, "bucket/"+job+"/"+bucket, false, func(u *txn.Unit) error {
		was, known, err := recordcache.Get[record.Bucket](u, record.BucketKey(bucket))
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
		return u.Apply(jobstate.DecideBucket(was, known, there, bucket, job, lasts, u.Now))
	})
	if err != nil || there {
		return err
	}
	return grant.MakeBucket(ctx, k.Data, bucket)
}

// Remove removes the buckets that were created for jobs that have all finished.
func (k Keeper) Remove(ctx context.Context, cause string) error {
	if k.Data == nil {
		return nil
	}
	u := k.Txns.NewUnit(ctx, events.FnReconcile)
	made, err := recordcache.List[record.Bucket](u, record.PartBuckets, "", 0)
	errs := []error{err}
	for _, bucket := range made {
		over, err := allFinished(u, bucket.Jobs)
		if err == nil && over {
			err = k.remove(ctx, cause+"/bucket/"+bucket.URI, bucket)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// remove removes a bucket, unless another job has begun to use it. The bucket is marked first. From then on no job
// can begin to use it, because the removal would also delete that job's data.
func (k Keeper) remove(ctx context.Context, cause string, bucket record.Bucket) error {
	ours := false
	note := func(gone bool) error {
		return k.Txns.Transact(ctx, events.FnReconcile, cause, false, func(u *txn.Unit) error {
			now, found, err := recordcache.Get[record.Bucket](u, record.BucketKey(bucket.URI))
			if ours = err == nil && found && slices.Equal(now.Jobs, bucket.Jobs); !ours {
				return record.OrSkip(err)
			}
			return u.Apply(jobstate.DecideRemoving(now, gone))
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

// allFinished reports whether all jobs have finished, which means that their machines are released.
func allFinished(u *txn.Unit, jobs []string) (bool, error) {
	for _, id := range jobs {
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
		if err != nil || found && !job.State.Finished() {
			return false, err
		}
	}
	return true, nil
}
