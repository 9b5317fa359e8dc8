package api

import "sync"

// Hub wakes agents that wait for a command. The zero value is not usable; make one with NewHub and give its Changed to
// the broker as broker.Ports.Changed.
type Hub struct {
	mu      sync.Mutex
	waiting map[string]*bell
}

// bell wakes everything that waits for a cluster, once.
type bell struct {
	rung  chan struct{}
	users int
}

// NewHub makes a Hub.
func NewHub() *Hub { return &Hub{waiting: map[string]*bell{}} }

// Changed wakes the calls that wait for a cluster. It never blocks.
func (h *Hub) Changed(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.waiting[cluster]; ok {
		delete(h.waiting, cluster)
		close(b.rung)
	}
}

// listen returns a channel that is closed at the next change of a cluster, and a function that releases it. Call
// listen before you read the state, so that no change in between is missed.
func (h *Hub) listen(cluster string) (rung <-chan struct{}, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.waiting[cluster]
	if !ok {
		b = &bell{rung: make(chan struct{})}
		h.waiting[cluster] = b
	}
	b.users++
	return b.rung, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if b.users--; b.users == 0 && h.waiting[cluster] == b {
			delete(h.waiting, cluster)
		}
	}
}
