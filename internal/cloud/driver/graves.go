package driver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Graves remembers the clusters that were terminated, so that a delayed call or an event that is delivered twice
// cannot launch them again. Methods are safe for concurrent use. Once Bury has returned for a cluster, Buried returns
// true for it in every process.
type Graves interface {
	Bury(ctx context.Context, cluster string) error
	Buried(ctx context.Context, cluster string) (bool, error)
}

// MemoryGraves keep the names in this process. The zero value is empty.
type MemoryGraves struct {
	mu    sync.Mutex
	names map[string]bool
}

// Bury implements Graves.
func (g *MemoryGraves) Bury(_ context.Context, cluster string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[cluster] = true
	return nil
}

// Buried implements Graves.
func (g *MemoryGraves) Buried(_ context.Context, cluster string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[cluster], nil
}

// StoreGraves keeps a cloud's graves in the deployment's table for the time keep. That time must be longer than the
// time after which any queue may deliver a message again. A grave costs one write, and a launch two reads.
func StoreGraves(cloud string, s store.Store, keep time.Duration, now func() time.Time) Graves {
	return storeGraves{cloud: cloud, store: s, keep: keep, now: now}
}

type storeGraves struct {
	cloud string
	store store.Store
	keep  time.Duration
	now   func() time.Time
}

func (g storeGraves) key(cluster string) store.Key {
	return store.Key{Partition: "grave#" + g.cloud + "#" + cluster, Sort: "grave"}
}

func (g storeGraves) Bury(ctx context.Context, cluster string) error {
	return g.store.Commit(ctx, store.Tx{Writes: []store.Write{{
		Op: store.Put, Key: g.key(cluster), Expect: store.Any, Body: []byte("{}"), Expires: g.now().Add(g.keep),
	}}})
}

func (g storeGraves) Buried(ctx context.Context, cluster string) (bool, error) {
	records, err := g.store.Get(ctx, g.key(cluster))
	return len(records) > 0, err
}

// CheckNotTerminated returns an error if the cluster was terminated; name is the cloud's.
func CheckNotTerminated(ctx context.Context, name string, g Graves, cluster string) error {
	buried, err := g.Buried(ctx, cluster)
	if err != nil {
		return fmt.Errorf("is cluster %s terminated: %w", cluster, err)
	}
	if buried {
		return Terminated(name, cluster)
	}
	return nil
}

// BeginTerminate begins to terminate a cluster. It buries the name, so that any later launch ends itself, and waits
// for calls in progress on the cluster. Other calls wait until release.
func BeginTerminate(ctx context.Context, g Graves, l *Locks, cluster string) (release func(), err error) {
	if err := g.Bury(ctx, cluster); err != nil {
		return nil, fmt.Errorf("terminate %s: %w", cluster, err)
	}
	return l.Take(ctx, cluster)
}
