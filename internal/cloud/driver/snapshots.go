package driver

import (
	"context"
	"io/fs"
	"sync"
)

// Snapshots stores a refreshed catalogue.
type Snapshots interface {
	// Get returns the snapshot and a tag that changes with it. If the tag still equals unless, Get returns no data.
	// It fails with fs.ErrNotExist if there is no snapshot.
	Get(ctx context.Context, unless string) (data []byte, tag string, err error)
	Put(ctx context.Context, data []byte) error
}

// Refreshed is the result of refreshing a cloud's part of the catalogue.
type Refreshed struct {
	Offers int      `json:"offers"`         // the cloud's offers in the regions that answered
	Kept   []string `json:"kept,omitempty"` // the parts that were not renewed, and why
}

// Refresh renews a cloud's part of the last snapshot and writes the next one. If it fails, it writes nothing and the
// old data stays valid.
type Refresh func(ctx context.Context, s Snapshots) (Refreshed, error)

// Memory is a snapshot in memory. Its zero value has no snapshot.
type Memory struct {
	mu   sync.Mutex
	data []byte
}

// NewMemory starts with the given snapshot; with none if data is empty.
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
