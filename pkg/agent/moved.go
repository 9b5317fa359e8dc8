package agent

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// moved adds up what an attempt exchanges with stores, for its reports: somebody pays for what leaves a cloud.
type moved struct {
	mu     sync.Mutex
	stores map[string]wire.Moved
}

// add takes in a request: the object's URI, and the bytes that went and came.
func (m *moved) add(uri string, sent, received int64) {
	scheme, rest, _ := strings.Cut(uri, "://")
	if scheme == "file" {
		return // the broker's own, which lies nowhere in particular
	}
	bucket, _, _ := strings.Cut(rest, "/")
	store := scheme + "://" + bucket
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.stores[store]; !known && len(m.stores) >= wire.MaxMoved {
		return
	}
	if m.stores == nil {
		m.stores = map[string]wire.Moved{}
	}
	sum := m.stores[store]
	sum.Store, sum.Sent, sum.Received = store, sum.Sent+sent, sum.Received+received
	m.stores[store] = sum
}

// all is what was moved so far, by store.
func (m *moved) all() (list []wire.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, store := range slices.Sorted(maps.Keys(m.stores)) {
		list = append(list, m.stores[store])
	}
	return list
}
