package book

import (
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Kept is what a process keeps of what it has read, so that it need not be read or decoded again: blobs, which never
// change, and records as they were last decoded.
type Kept struct {
	Blobs   *recent[record.BlobKey]
	records *decodedRecords
}

// NewKept makes a cache of blobs up to so many bytes, and of decoded records.
func NewKept(blobBytes int) *Kept {
	return &Kept{newRecent[record.BlobKey](blobBytes), &decodedRecords{recent: newRecent[store.Key](decodedBytes)}}
}
