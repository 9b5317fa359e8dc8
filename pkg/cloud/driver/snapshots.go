package driver

import "context"

// Snapshots is where a refreshed catalogue is kept.
type Snapshots interface {
	// Get returns the snapshot and a tag that changes with it; no data when it still has the tag in unless. It fails
	// with fs.ErrNotExist when there is none.
	Get(ctx context.Context, unless string) (data []byte, tag string, err error)
	Put(ctx context.Context, data []byte) error
}
