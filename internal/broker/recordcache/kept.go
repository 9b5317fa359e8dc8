package recordcache

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Cache is the cache of a process, so that it does not read or decode the same data again. It has blobs, which never
// change, and decoded records.
type Cache struct {
	Blobs   *recent[record.BlobKey]
	records *Decoded
}

// NewKept returns a cache of up to blobBytes of blobs, and of decoded records.
func NewKept(blobBytes int) *Cache {
	return &Cache{newRecent[record.BlobKey](blobBytes), &Decoded{recent: newRecent[store.Key](decodedBytes)}}
}

// Records returns the cache of decoded records.
func (k *Cache) Records() *Decoded { return k.records }

// Share makes k use a cache of decoded records that others use as well. It must be called before anything else.
func (k *Cache) Share(d *Decoded) {
	k.records = d
}
