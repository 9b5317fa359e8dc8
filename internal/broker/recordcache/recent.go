package recordcache

import (
	"sync"
)

// recent is a cache of the most recently used values, in two generations of up to half of its bytes each. A value
// that is not used during a whole generation is dropped. A generation has at least two values. So two values that are
// read alternately never displace each other, however large they are.
type recent[K comparable] struct {
	mu         sync.Mutex
	young, old map[K]sized
	bytes      int // of the young
	limit      int
}

type sized struct {
	value any
	bytes int
}

func newRecent[K comparable](limit int) *recent[K] {
	return &recent[K]{young: map[K]sized{}, limit: limit}
}

// Get returns a value, or nil if it is not in the cache.
func (r *recent[K]) Get(k K) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[k]
	if !ok {
		if v, ok = r.old[k]; ok {
			r.keep(k, v)
		}
	}
	return v.value
}

func (r *recent[K]) Put(k K, value any, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(k, sized{value, size})
}

func (r *recent[K]) keep(k K, v sized) {
	r.bytes += v.bytes - r.young[k].bytes
	r.young[k] = v
	if r.bytes > r.limit/2 && len(r.young) > 1 {
		r.young, r.old, r.bytes = map[K]sized{}, r.young, 0
	}
}
