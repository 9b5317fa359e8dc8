package jobstate

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// DecideBucket records for which jobs a temporary bucket is created. A bucket that existed without a record belongs
// to the user. If any job wants to keep the bucket, its record is deleted and the bucket stays.
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

// DecideRemoving records that a bucket is being removed. When the bucket is gone, it deletes the record.
func DecideRemoving(bucket record.Bucket, gone bool) (d record.Decision) {
	if gone {
		d.Del(record.BucketKey(bucket.URI))
		return d
	}
	bucket.Removing = true
	d.Put(record.BucketKey(bucket.URI), bucket)
	return d
}
