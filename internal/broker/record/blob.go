package record

import "github.com/tradewind-broker/tradewind/pkg/store"

// Blob refers to a value too large for one record: JSON, compressed, in chunks of the job's
// partition that are written once and never change. The zero Blob is none.
type Blob struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // spec, plan or bids
	Token   string `json:"token"`
	Chunks  int    `json:"chunks"`
	Bytes   int    `json:"bytes"` // decompressed
}

// IsZero says whether there is none.
func (b Blob) IsZero() bool { return b == Blob{} }

// ChunkBytes leaves room for the key within an item's limit.
const ChunkBytes = 300 << 10

// Key is the key of one chunk.
func (b Blob) Key(job string, chunk int) store.Key {
	version := b.Name + "#" + padded(b.Version, 6) + "#" + b.Token
	return store.Key{Partition: JobPart(job), Sort: version + "#" + padded(chunk, 4)}
}

// BlobKey names a blob.
type BlobKey struct {
	job, name, token string
	version          int
}

// In is what a blob of a job is kept by.
func (b Blob) In(job string) BlobKey {
	return BlobKey{job: job, name: b.Name, token: b.Token, version: b.Version}
}
