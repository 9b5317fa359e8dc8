package life

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// DecideBucket notes for whom a bucket is made that is removed again. One that was there before, with no note of it, is
// the user's; one that some job wants to stay does.
func DecideBucket(was record.Bucket, known, there bool, bucket, job string, life dag.Bucket,
	now time.Time) (d record.Decision) {
	switch {
	case life != dag.BucketTemporary:
		if known {
			d.Del(record.BucketKey(bucket))
		}
	case known && !slices.Contains(was.Jobs, job):
		was.Jobs = append(slices.Clone(was.Jobs), job)
		d.Put(record.BucketKey(bucket), was)
	case !known && !there:
		d.Put(record.BucketKey(bucket), record.Bucket{URI: bucket, Jobs: []string{job}, At: now})
	}
	return d
}

// DecideRemoving notes that a bucket is being removed, and drops the note when it is gone.
func DecideRemoving(bucket record.Bucket, gone bool) (d record.Decision) {
	if gone {
		d.Del(record.BucketKey(bucket.URI))
		return d
	}
	bucket.Removing = true
	d.Put(record.BucketKey(bucket.URI), bucket)
	return d
}
