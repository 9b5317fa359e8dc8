package record

import "github.com/tradewind-broker/tradewind/pkg/store"

// Blob refers to a value that is too large for one record. The value is compressed JSON in chunks in the job's
// partition, which are written once and never change. The zero Blob means that there is none.
type Blob struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // spec, plan or bids
	Token   string `json:"token"`
	Chunks  int    `json:"chunks"`
	Bytes   int    `json:"bytes"` // decompressed
}

// IsZero reports whether there is no blob.
func (b Blob) IsZero() bool { return b == Blob{} }

// ChunkBytes is the size of a chunk. It leaves room for the key within an item's limit.
const ChunkBytes = 300 << 10

// Key is the key of one chunk.
func (b Blob) Key(job string, chunk int) store.Key {
	version := b.Name + "#" + padded(b.Version, 6) + "#" + b.Token
	return store.Key{Partition: JobPart(job), Sort: version + "#" + padded(chunk, 4)}
}

// BlobKey identifies a blob in caches.
type BlobKey struct {
	job, name, token string
	version          int
}

// In is the cache key of a job's blob.
func (b Blob) In(job string) BlobKey {
	return BlobKey{job: job, name: b.Name, token: b.Token, version: b.Version}
}
