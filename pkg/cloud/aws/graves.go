package aws

import (
	"context"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Graves remember which clusters were terminated, so that their names are not launched again: not by a call that was
// held up on its way, nor by an event that is delivered once more. Methods are safe for concurrent use. What Bury has
// returned for, Buried sees, from anywhere.
type Graves interface {
	Bury(ctx context.Context, cluster string) error
	Buried(ctx context.Context, cluster string) (bool, error)
}

// memoryGraves are for one process.
type memoryGraves struct {
	mu    sync.Mutex
	names map[string]bool
}

func (g *memoryGraves) Bury(ctx context.Context, cluster string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[cluster] = true
	return nil
}

func (g *memoryGraves) Buried(_ context.Context, cluster string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[cluster], nil
}

// StoreGraves keeps graves in the deployment's table for a time, which is to be longer than any queue delivers again.
// A grave costs one write, a launch two reads.
func StoreGraves(s store.Store, keep time.Duration, now func() time.Time) Graves {
	return storeGraves{store: s, keep: keep, now: now}
}

type storeGraves struct {
	store store.Store
	keep  time.Duration
	now   func() time.Time
}

func graveKey(cluster string) store.Key {
	return store.Key{Partition: "grave#" + Name + "#" + cluster, Sort: "grave"}
}

func (g storeGraves) Bury(ctx context.Context, cluster string) error {
	return g.store.Commit(ctx, store.Tx{Writes: []store.Write{{
		Op: store.Put, Key: graveKey(cluster), Expect: store.Any, Body: []byte("{}"), Expires: g.now().Add(g.keep),
	}}})
}

func (g storeGraves) Buried(ctx context.Context, cluster string) (bool, error) {
	records, err := g.store.Get(ctx, graveKey(cluster))
	return len(records) > 0, err
}
