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

// queue is the index of one queue: which messages are visible, and when the
// others will be. It holds no bodies. Its methods keep the index alone: the Bus,
// which locks it around them, writes to the journal what they return, still under
// the lock, so that the journal sees the changes of a message in their order.
type queue struct {
	config bus.QueueConfig

	mu      sync.Mutex
	entries map[uint64]*entry // every message of the queue by its number
	visible []*entry          // oldest first; an entry that has left is skipped
	hidden  hiddenHeap        // in flight, backing off or delayed, by when that ends
	wake    chan struct{}     // closed when a waiting receiver should look again; nil if none waits
}

// entry is a message's place in the index: 32 bytes beside the map's, so that a long
// queue stays cheap.
type entry struct {
	number   uint64
	until    int64 // when a hidden message becomes visible, in Unix nanoseconds
	attempts int32 // deliveries begun
	pos      int32 // in the heap
	place    place
	answered bool // its latest delivery was: that receipt is stale
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

// take marks up to limit visible messages as delivered. The caller has called
// advance.
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
		q.hide(e, inFlight, later(now, q.config.Visibility))
		taken = append(taken, delivery{number: e.number, attempts: e.attempts})
	}
	clear(q.visible[:passed])
	q.visible = q.visible[passed:]
	if len(q.visible) == 0 {
		q.visible = nil // lets the array go
	}
	return taken
}

// advance shows the messages whose time has come, and returns those that
// were not answered after their last delivery: they have left the index and must be buried.
func (q *queue) advance(now int64) (lapsed []burial) {
	for len(q.hidden) > 0 && q.hidden[0].until <= now {
		e := q.hidden[0]
		if e.place == inFlight && int(e.attempts) >= q.config.MaxAttempts {
			reason := fmt.Sprintf("no answer within %v of delivery %d, the last", q.config.Visibility, e.attempts)
			lapsed = append(lapsed, q.drop(e, e.until, reason))
			continue
		}
		q.unplace(e)
		q.show(e)
	}
	return lapsed
}

// comesBack returns when the next hidden message becomes visible, 0 if there is none.
func (q *queue) comesBack() int64 {
	if len(q.hidden) == 0 {
		return 0
	}
	return q.hidden[0].until
}

// find returns the entry that a receipt speaks for, if that is still its message's
// latest delivery and not answered. gone says that the queue has no such message.
func (q *queue) find(receipt string) (e *entry, gone bool, err error) {
	d, ok := parseReceipt(receipt)
	if !ok {
		return nil, false, fmt.Errorf("%w: %q is none of this bus", bus.ErrStaleReceipt, receipt)
	}
	e = q.entries[d.number]
	switch {
	case e == nil:
		return nil, true, fmt.Errorf("%w: the message of %s in %s is gone", bus.ErrStaleReceipt, receipt, q.config.Name)
	case e.attempts != d.attempts || e.answered:
		return nil, false, fmt.Errorf("%w: %s in %s", bus.ErrStaleReceipt, receipt, q.config.Name)
	}
	return e, false, nil
}

// release hides a delivered message for its back-off.
func (q *queue) release(e *entry, now int64) {
	q.unplace(e)
	e.answered = true
	if backoff := q.config.Backoff(int(e.attempts)); backoff > 0 {
		q.hide(e, waiting, later(now, backoff))
		return
	}
	e.until = now
	q.show(e)
}

// extend hides a delivered message anew.
func (q *queue) extend(e *entry, now int64) {
	q.unplace(e)
	q.hide(e, inFlight, later(now, q.config.Visibility))
}

// drop forgets an entry and returns how to bury its message.
func (q *queue) drop(e *entry, at int64, reason string) burial {
	q.unplace(e)
	delete(q.entries, e.number)
	if len(q.entries) == 0 { // what is left among the visible has left
		q.visible = nil
	}
	return burial{
		ref:      ref{queue: q.config.Name, number: e.number},
		letter:   letterID{at: max(at, 0)},
		attempts: int(e.attempts),
		reason:   bus.TrimReason(reason),
	}
}

// show and hide place an entry that is nowhere, and wake receivers if it matters to them.
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

// unplace takes an entry from wherever it is: out of the heap, or out of the
// visible by the mark alone.
func (q *queue) unplace(e *entry) {
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

// woken returns a channel that is closed when there may be something to take.
func (q *queue) woken() <-chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return q.wake
}

// hiddenHeap orders entries by when they become visible, and those of one
// moment by age. It implements heap.Interface.
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

// later adds without passing the end of what nanoseconds can say.
func later(now int64, d time.Duration) int64 {
	if t := now + int64(d); t >= now {
		return t
	}
	return math.MaxInt64
}
