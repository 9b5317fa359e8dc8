package driver

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Held is what a bus knows of the deliveries it has made: the content of each, of type C, for a dead letter, the
// service's handle, and whether it was answered. Services take the handle of an earlier delivery for good; this does
// not. An entry is forgotten some time after its delivery has timed out. The zero value is ready.
type Held[C any] struct {
	mu      sync.Mutex
	entries map[heldKey]*entry[C]
	serial  uint64
	sweep   int // entries at which to look for old ones
}

type heldKey struct{ queue, id string }

// Delivered is the latest delivery of a message.
type Delivered[C any] struct {
	Attempt int
	Handle  string
	Content C
	Until   time.Time // when it times out
}

type entry[C any] struct {
	Delivered[C]
	serial uint64 // tells it from another delivery of the message
	forget time.Time
	state  State
}

// State is what became of a delivery.
type State uint8

// States of a delivery.
const (
	Open     State = iota // not answered
	Answered              // its message lives on
	Gone                  // its message was removed from the queue
)

// Add notes a delivery of the message that the service calls id, and returns its receipt.
func (h *Held[C]) Add(queue, id string, d Delivered[C], now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == nil {
		h.entries = make(map[heldKey]*entry[C])
	}
	h.serial++
	h.entries[heldKey{queue, id}] = &entry[C]{Delivered: d, serial: h.serial, forget: forgetAt(now, d.Until)}
	if len(h.entries) > h.sweep {
		for key, e := range h.entries {
			if e.forget.Before(now) {
				delete(h.entries, key)
			}
		}
		h.sweep = 2*len(h.entries) + 1000
	}
	return id + "." + strconv.FormatUint(h.serial, 36)
}

// forgetAt is a time-out and some after until.
func forgetAt(now, until time.Time) time.Time { return until.Add(until.Sub(now) + time.Minute) }

func (h *Held[C]) find(queue, receipt string) *entry[C] {
	i := strings.LastIndexByte(receipt, '.')
	if i < 0 {
		return nil
	}
	return h.entries[heldKey{queue, receipt[:i]}]
}

// Take answers a delivery: its state becomes next, and a copy of what it was is returned with a function that takes the
// answer back. It fails with bus.ErrStaleReceipt; over says that the message of a stale receipt was removed here.
func (h *Held[C]) Take(queue, receipt string, next State) (d Delivered[C], undo func(), over bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.find(queue, receipt)
	switch {
	case e == nil || !strings.HasSuffix(receipt, "."+strconv.FormatUint(e.serial, 36)):
		return d, nil, e != nil && e.state == Gone, fmt.Errorf("%w: %.80q in %s", bus.ErrStaleReceipt, receipt, queue)
	case e.state != Open:
		return d, nil, e.state == Gone, fmt.Errorf("%w: %.80q in %s was answered", bus.ErrStaleReceipt, receipt, queue)
	}
	d = e.Delivered
	if next != Open {
		e.close(next)
	}
	return d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		e.state, e.Content = Open, d.Content
	}, false, nil
}

// close keeps that a delivery was answered and lets its content go.
func (e *entry[C]) close(s State) {
	var none C
	e.state, e.Content = s, none
}

// Set notes what became of a delivery after all.
func (h *Held[C]) Set(queue, receipt string, s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.find(queue, receipt); e != nil {
		e.close(s)
	}
}

// Extend notes that a delivery is hidden until another moment.
func (h *Held[C]) Extend(queue, receipt string, now, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.find(queue, receipt); e != nil {
		e.Until, e.forget = until, forgetAt(now, until)
	}
}
