package api

import "sync"

// Hub wakes agents that wait for a command. The zero value is not usable; make one with NewHub and give its Changed to
// the broker as broker.Ports.Changed.
type Hub struct {
	mu      sync.Mutex
	waiting map[string]*bell
}

// bell rings once for everyone who waits for a cluster.
type bell struct {
	rung  chan struct{}
	users int
}

// NewHub makes a Hub.
func NewHub() *Hub { return &Hub{waiting: map[string]*bell{}} }

// Changed wakes whoever waits for a cluster. It never blocks, and costs next to nothing when nobody does.
func (h *Hub) Changed(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.waiting[cluster]; ok {
		delete(h.waiting, cluster)
		close(b.rung)
	}
}

// listen returns a channel that is closed at the next change of a cluster, and a function that gives it back. Listen
// before looking: a change in between is then not missed.
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
