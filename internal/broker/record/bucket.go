package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// PartBuckets is the partition of the buckets that the broker will remove.
const PartBuckets = "buckets"

// Bucket is a bucket that was created for jobs, and is removed when all of them have ended. Its record is written
// before the bucket is created, so that no bucket is forgotten. A bucket that existed before has no record.
type Bucket struct {
	URI  string    `json:"uri"`
	Jobs []string  `json:"jobs"`
	At   time.Time `json:"at"`
	// Removing means that the bucket is being removed. No other job may use it until it is gone.
	Removing bool `json:"removing,omitempty"`
}

// BucketKey is the key of a Bucket.
func BucketKey(uri string) store.Key { return store.Key{Partition: PartBuckets, Sort: uri} }
