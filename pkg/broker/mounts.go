package broker

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

// makeBuckets makes the buckets that a task asks for and that are not there, before a machine is bought for it. Those
// that are removed again are recorded first.
func (b *Broker) makeBuckets(ctx context.Context, job string, t *dag.Task) error {
	for k := range t.Inputs {
		in := &t.Inputs[k]
		if in.Bucket == dag.BucketThere || t.StandIn() || b.Data == nil {
			continue
		}
		bucket, err := grant.BucketOf(in.URI)
		if err != nil {
			return cloud.Errorf("storage", cloud.Invalid, "BadBucket", "%v", err)
		}
		if err := b.makeBucket(ctx, job, bucket, in.Bucket); err != nil {
			kind := cloud.Transient
			if errors.Is(err, grant.ErrNoBucket) || errors.Is(err, errors.ErrUnsupported) ||
				errors.Is(err, grant.ErrCredentials) {
				kind = cloud.Invalid
			}
			return cloud.Errorf("storage", kind, "NoBucket", "%v", err)
		}
	}
	return nil
}

func (b *Broker) makeBucket(ctx context.Context, job, bucket string, lasts dag.Bucket) error {
	key := record.BucketKey(bucket)
	_, err := b.Data.List(ctx, bucket, "")
	there := err == nil
	if err != nil && !errors.Is(err, grant.ErrNoBucket) {
		return err
	}
	err = b.Transact(ctx, events.FnProvision, "bucket/"+job+"/"+bucket, false, func(u *unit.Unit) error {
		was, known, err := book.Get[record.Bucket](u, key)
		if err != nil {
			return err
		}
		return u.Apply(life.DecideBucket(was, known, there, bucket, job, lasts, u.Now))
	})
	if err != nil || there {
		return err
	}
	return grant.MakeBucket(ctx, b.Data, bucket)
}

// RemoveBuckets removes the buckets that were made for jobs which have all ended. Reconcile does it, and so may a host
// that is about to stop.
func (b *Broker) RemoveBuckets(ctx context.Context, cause string) error {
	if b.Data == nil {
		return nil
	}
	u := b.NewUnit(ctx, events.FnReconcile)
	made, err := book.List[record.Bucket](u, record.PartBuckets, "", 0)
	errs := []error{err}
	for _, bucket := range made {
		over, err := allOver(u, bucket.Jobs)
		if err == nil && over {
			err = grant.RemoveBucket(ctx, b.Data, bucket.URI)
		}
		if err == nil && over {
			err = b.Transact(ctx, events.FnReconcile, cause+"/bucket/"+bucket.URI, false, func(u *unit.Unit) error {
				now, found, err := book.Get[record.Bucket](u, record.BucketKey(bucket.URI))
				if err != nil || !found || !slices.Equal(now.Jobs, bucket.Jobs) { // another job has come
					return record.OrSkip(err)
				}
				var d record.Decision
				d.Del(record.BucketKey(bucket.URI))
				return u.Apply(d)
			})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
