package recordcache

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Kept is what a process keeps of what it has read, so that it need not be read or decoded again: blobs, which never
// change, and records as they were last decoded.
type Kept struct {
	Blobs   *recent[record.BlobKey]
	records *Decoded
}

// NewKept makes a cache of blobs up to so many bytes, and of decoded records.
func NewKept(blobBytes int) *Kept {
	return &Kept{newRecent[record.BlobKey](blobBytes), &Decoded{recent: newRecent[store.Key](decodedBytes)}}
}

// Records is what is kept of records.
func (k *Kept) Records() *Decoded { return k.records }

// Share keeps decoded records in a cache that others use too. It comes before all else.
func (k *Kept) Share(d *Decoded) {
	k.records = d
}
