package aws

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// deliveries records the deliveries that a bus has made: the content of each (of type C, needed for a dead letter),
// the service's handle, and whether it was answered. The services accept the handle of an earlier delivery; Held
// rejects it. An entry is removed some time after its delivery has timed out. The zero value is ready to use.
type deliveries[C any] struct {
	mu      sync.Mutex
	entries map[heldKey]*entry[C]
	serial  uint64
	sweep   int // number of entries at which to remove old ones
}

type heldKey struct{ queue, id string }

// delivered is the latest delivery of a message.
type delivered[C any] struct {
	Attempt int
	Handle  string
	Content C
	Until   time.Time // when it times out
}

type entry[C any] struct {
	delivered[C]
	serial uint64 // distinguishes it from other deliveries of the message
	forget time.Time
	state  state
}

// state is the state of a delivery.
type state uint8

// States of a delivery.
const (
	open     state = iota // not answered
	answered              // but its message still exists
	gone                  // its message was removed from the queue
)

// Add records a delivery of the message with the service's ID id, and returns its receipt.
func (h *deliveries[C]) Add(queue, id string, d delivered[C], now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries == nil {
		h.entries = make(map[heldKey]*entry[C])
	}
	h.serial++
	h.entries[heldKey{queue, id}] = &entry[C]{delivered: d, serial: h.serial, forget: forgetAt(now, d.Until)}
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

// forgetAt returns the time at which to remove the record of a delivery: another time-out and a minute after until.
func forgetAt(now, until time.Time) time.Time { return until.Add(until.Sub(now) + time.Minute) }

func (h *deliveries[C]) find(queue, receipt string) *entry[C] {
	i := strings.LastIndexByte(receipt, '.')
	if i < 0 {
		return nil
	}
	return h.entries[heldKey{queue, receipt[:i]}]
}

// Take answers a delivery: it sets the state to next and returns a copy of the delivery and a function that undoes
// the answer. It fails with bus.ErrStaleReceipt; over is then true if this bus removed the message of the receipt.
func (h *deliveries[C]) Take(queue, receipt string, next state) (d delivered[C], undo func(), over bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.find(queue, receipt)
	switch {
	case e == nil || !strings.HasSuffix(receipt, "."+strconv.FormatUint(e.serial, 36)):
		return d, nil, e != nil && e.state == gone, fmt.Errorf("%w: %.80q in %s", bus.ErrStaleReceipt, receipt, queue)
	case e.state != open:
		return d, nil, e.state == gone, fmt.Errorf("%w: %.80q in %s was answered", bus.ErrStaleReceipt, receipt, queue)
	}
	d = e.delivered
	if next != open {
		e.close(next)
	}
	return d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		e.state, e.Content = open, d.Content
	}, false, nil
}

// close sets the state of an answered delivery and frees its content.
func (e *entry[C]) close(s state) {
	var none C
	e.state, e.Content = s, none
}

// Set sets the final state of a delivery.
func (h *deliveries[C]) Set(queue, receipt string, s state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.find(queue, receipt); e != nil {
		e.close(s)
	}
}

// Extend records a new time-out of a delivery.
func (h *deliveries[C]) Extend(queue, receipt string, now, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.find(queue, receipt); e != nil {
		e.Until, e.forget = until, forgetAt(now, until)
	}
}
