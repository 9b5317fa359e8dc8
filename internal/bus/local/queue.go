package local

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// queue is the index of one queue: the visible messages, and the times at which the others become visible. It holds
// no bodies. Its methods change only the index. The Bus locks the queue, calls a method and writes the result to the
// journal under the same lock, so that the journal gets the changes of a message in their order.
type queue struct {
	config bus.QueueConfig

	mu      sync.Mutex
	entries map[uint64]*entry // all messages of the queue by number
	visible []*entry          // oldest first; may hold entries that are no longer visible, which are skipped
	hidden  hiddenHeap        // in flight, backing off or delayed, by the time when that ends
	wake    chan struct{}     // closed when waiting receivers should check again; nil if none waits
}

// entry is the record of a message in the index. It is small (32 bytes and its entry in the map), so that a long
// queue stays cheap.
type entry struct {
	number   uint64
	until    int64 // when a hidden message becomes visible, in Unix nanoseconds
	attempts int32 // number of deliveries
	pos      int32 // in the heap
	place    place
	answered bool // its latest delivery was answered, so that receipt is stale
}

type place uint8

const (
	nowhere  place = iota // acknowledged, dead, or about to be
	visible               // in queue.visible
	waiting               // hidden: delayed or backing off
	inFlight              // hidden: delivered
)

func newQueue(config bus.QueueConfig) *queue {
	return &queue{config: config, entries: make(map[uint64]*entry)}
}

// add puts a message into the index.
func (q *queue) add(now int64, e *entry) {
	q.entries[e.number] = e
	if e.until > now {
		q.hide(e, waiting, e.until)
		return
	}
	q.show(e)
}

// take marks up to limit visible messages as delivered. Callers must call advance
// first.
func (q *queue) take(now int64, limit int) (taken []delivery) {
	passed := 0
	for _, e := range q.visible {
		if len(taken) == limit {
			break
		}
		passed++
		if e.place != visible {
			continue
		}
		e.attempts++
		e.answered = false
		q.hide(e, inFlight, addTime(now, q.config.Visibility))
		taken = append(taken, delivery{number: e.number, attempts: e.attempts})
	}
	clear(q.visible[:passed])
	q.visible = q.visible[passed:]
	if len(q.visible) == 0 {
		q.visible = nil // frees the array
	}
	return taken
}

// advance makes messages visible when their time has come. It returns the messages whose last delivery was not
// answered: they have left the index, and the caller must bury them.
func (q *queue) advance(now int64) (lapsed []burial) {
	for len(q.hidden) > 0 && q.hidden[0].until <= now {
		e := q.hidden[0]
		if e.place == inFlight && int(e.attempts) >= q.config.MaxAttempts {
			reason := fmt.Sprintf("no answer within %v of the last delivery (%d)", q.config.Visibility, e.attempts)
			lapsed = append(lapsed, q.drop(e, e.until, reason))
			continue
		}
		q.remove(e)
		q.show(e)
	}
	return lapsed
}

// nextVisible returns the time at which the next hidden message becomes visible, or 0 if there is none.
func (q *queue) nextVisible() int64 {
	if len(q.hidden) == 0 {
		return 0
	}
	return q.hidden[0].until
}

// find returns the entry for a receipt, if the receipt is of the message's latest
// delivery and not yet answered. gone is true if the queue has no such message.
func (q *queue) find(receipt string) (e *entry, gone bool, err error) {
	d, ok := parseReceipt(receipt)
	if !ok {
		return nil, false, fmt.Errorf("%w: %q is not a receipt of this bus", bus.ErrStaleReceipt, receipt)
	}
	e = q.entries[d.number]
	switch {
	case e == nil:
		return nil, true, fmt.Errorf("%w: the message of %s in %s no longer exists", bus.ErrStaleReceipt, receipt,
			q.config.Name)
	case e.attempts != d.attempts || e.answered:
		return nil, false, fmt.Errorf("%w: %s in %s", bus.ErrStaleReceipt, receipt, q.config.Name)
	}
	return e, false, nil
}

// release hides a delivered message for its back-off.
func (q *queue) release(e *entry, now int64) {
	q.remove(e)
	e.answered = true
	if backoff := q.config.Backoff(int(e.attempts)); backoff > 0 {
		q.hide(e, waiting, addTime(now, backoff))
		return
	}
	e.until = now
	q.show(e)
}

// extend hides a delivered message for another visibility time-out.
func (q *queue) extend(e *entry, now int64) {
	q.remove(e)
	q.hide(e, inFlight, addTime(now, q.config.Visibility))
}

// drop forgets an entry and returns the burial of its message.
func (q *queue) drop(e *entry, at int64, reason string) burial {
	q.remove(e)
	delete(q.entries, e.number)
	if len(q.entries) == 0 { // all entries in visible have left
		q.visible = nil
	}
	return burial{
		ref:      ref{queue: q.config.Name, number: e.number},
		letter:   letterID{at: max(at, 0)},
		attempts: int(e.attempts),
		reason:   bus.TrimReason(reason),
	}
}

// show and hide put an entry that is in neither place into the visible or the hidden messages, and wake receivers if
// necessary.
func (q *queue) show(e *entry) {
	e.place = visible
	q.visible = append(q.visible, e)
	q.signal()
}

func (q *queue) hide(e *entry, p place, until int64) {
	e.place, e.until = p, until
	heap.Push(&q.hidden, e)
	if e.pos == 0 {
		q.signal()
	}
}

// remove removes an entry from the heap, or marks it so that visible
// skips it.
func (q *queue) remove(e *entry) {
	if e.place == waiting || e.place == inFlight {
		heap.Remove(&q.hidden, int(e.pos))
	}
	e.place = nowhere
}

// signal wakes every waiting receiver.
func (q *queue) signal() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

// woken returns a channel that is closed when messages may be available.
func (q *queue) woken() <-chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return q.wake
}

// hiddenHeap orders entries by the time when they become visible, then by
// age. It implements heap.Interface.
type hiddenHeap []*entry

func (h hiddenHeap) Len() int { return len(h) }

func (h hiddenHeap) Less(i, j int) bool {
	if h[i].until != h[j].until {
		return h[i].until < h[j].until
	}
	return h[i].number < h[j].number
}

func (h hiddenHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i), int32(j) //nolint:gosec // a queue of 2³¹ messages does not fit in memory
}

func (h *hiddenHeap) Push(x any) {
	e := x.(*entry)
	e.pos = int32(len(*h)) //nolint:gosec // as above
	*h = append(*h, e)
}

func (h *hiddenHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = slices.Delete(*h, last, last+1)
	return e
}

// addTime returns now+d, or the latest possible time if that overflows.
func addTime(now int64, d time.Duration) int64 {
	if t := now + int64(d); t >= now {
		return t
	}
	return math.MaxInt64
}
