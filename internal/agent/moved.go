package agent

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// traffic adds up an attempt's traffic with stores. Reports contain the sums, because traffic that leaves a cloud costs
// money.
type traffic struct {
	mu     sync.Mutex
	stores map[string]wire.Moved
}

// add counts a request: the object's URI, and the bytes sent and received.
func (m *traffic) add(uri string, sent, received int64) {
	scheme, rest, _ := strings.Cut(uri, "://")
	if scheme == "file" {
		return // the broker's own store, which is in no cloud
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

// all returns the traffic so far, by store.
func (m *traffic) all() (list []wire.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, store := range slices.Sorted(maps.Keys(m.stores)) {
		list = append(list, m.stores[store])
	}
	return list
}
