package broker

import "github.com/tradewind-broker/tradewind/pkg/store"

// kept is what a process keeps of what it has read, so that it need not be read or decoded again: blobs, which never
// change, and records as they were last decoded.
type kept struct {
	blobs   *recent[blobKey]
	records *decodedRecords
}

// newKept makes a cache of blobs up to so many bytes, and of decoded records.
func newKept(blobBytes int) *kept {
	return &kept{newRecent[blobKey](blobBytes), &decodedRecords{recent: newRecent[store.Key](decodedBytes)}}
}

// blobKey names a blob.
type blobKey struct {
	job, name, token string
	version          int
}

// in is what a blob of a job is kept by.
func (b Blob) in(job string) blobKey {
	return blobKey{job: job, name: b.Name, token: b.Token, version: b.Version}
}
