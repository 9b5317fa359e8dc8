package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// PartBuckets is the partition of the buckets that are removed again.
const PartBuckets = "buckets"

// Bucket is a bucket that was made for jobs and is removed when all of them have ended. Its record is there before the
// bucket is, so that none is forgotten; of one that was there before there is none.
type Bucket struct {
	URI  string    `json:"uri"`
	Jobs []string  `json:"jobs"`
	At   time.Time `json:"at"`
	// Removing says that it is being removed: no other job may use it before it is gone.
	Removing bool `json:"removing,omitempty"`
}

// BucketKey is the key of a Bucket.
func BucketKey(uri string) store.Key { return store.Key{Partition: PartBuckets, Sort: uri} }
