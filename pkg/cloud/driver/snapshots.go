package driver

import (
	"context"
	"io/fs"
	"sync"
)

// Snapshots is where a refreshed catalogue is kept.
type Snapshots interface {
	// Get returns the snapshot and a tag that changes with it; no data when it still has the tag in unless. It fails
	// with fs.ErrNotExist when there is none.
	Get(ctx context.Context, unless string) (data []byte, tag string, err error)
	Put(ctx context.Context, data []byte) error
}

// Refreshed says what a refresh of a cloud's part of the catalogue has read.
type Refreshed struct {
	Offers int      `json:"offers"`         // of the cloud, in the regions that answered
	Kept   []string `json:"kept,omitempty"` // what stays as it was, and why
}

// Refresh renews a cloud's part of the catalogue over the last snapshot, and writes the next. When it fails nothing is
// written, and what was known still holds.
type Refresh func(ctx context.Context, s Snapshots) (Refreshed, error)

// Memory is a snapshot in memory. Its zero value has none.
type Memory struct {
	mu   sync.Mutex
	data []byte
}

// NewMemory begins with a snapshot; none when it is empty.
func NewMemory(data []byte) *Memory { return &Memory{data: data} }

// Get implements Snapshots; it has no tags.
func (m *Memory) Get(context.Context, string) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.data) == 0 {
		return nil, "", fs.ErrNotExist
	}
	return m.data, "", nil
}

// Put implements Snapshots.
func (m *Memory) Put(_ context.Context, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = data
	return nil
}
