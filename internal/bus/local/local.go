// Package local is the bus of a broker that runs in one process. It follows the rules of SQS (package
// bus), in a file or, for tests, in memory.
//
// The messages are in a bolt.File, which is the bus's own (Open) or shared with the store (New). In a shared
// file, a handler's commit, the relay's publishing and the changes of deliveries are written together. A
// round of the relay, which takes events from the store's outbox, publishes them and marks them published,
// waits for the disk once. Memory holds only an index of about 100 bytes for each message, so that a long
// queue is cheap.
//
// Publish, and every change that creates or removes a dead letter, is durable when the call returns. Deliveries,
// failures and acknowledgements are written at most a few milliseconds later, together with other
// changes. If a crash comes in between, the message is delivered again, just as after a slightly earlier
// crash. When a file is opened again, messages that were in flight are visible at once, with their deliveries
// counted, because their consumers have ended.
package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Config is the configuration of a bus.
type Config struct {
	Queues []bus.QueueConfig
	Route  bus.Route
	Clock  Clock // nil means the system's; its time must be from 1970 to 2262
}

// Bus is a bus.Bus in one process. Make one with New or NewMemory.
type Bus struct {
	clock   Clock
	route   bus.Route
	queues  map[string]*queue
	journal journal

	redriving sync.Mutex // at most one redrive at a time
	closed    chan struct{}
	closing   sync.Once
	closeErr  error
}

var _ bus.Bus = (*Bus)(nil)

// NewMemory returns a bus whose messages are lost when the process ends, for tests.
func NewMemory(config Config) (*Bus, error) {
	return newBus(config, newMemory())
}

func newBus(config Config, j journal) (*Bus, error) {
	if err := bus.ValidateRoute(config.Route, config.Queues); err != nil {
		return nil, err
	}
	b := &Bus{
		clock:   config.Clock,
		route:   make(bus.Route, len(config.Route)),
		queues:  make(map[string]*queue, len(config.Queues)),
		journal: j,
		closed:  make(chan struct{}),
	}
	if b.clock == nil {
		b.clock = systemClock{}
	}
	for typ, names := range config.Route {
		b.route[typ] = append([]string(nil), names...)
	}
	for _, q := range config.Queues {
		b.queues[q.Name] = newQueue(q)
	}
	return b, nil
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	var c change
	now := b.clock.Now()
	for i := range messages {
		m := &messages[i]
		if err := m.Validate(); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		names, routed := b.route[m.Type]
		if !routed {
			c.dead = append(c.dead, b.unrouted(m, now))
		}
		for _, name := range names {
			c.insert = append(c.insert, stored{ref: ref{queue: name, number: b.journal.next()}, message: m})
		}
	}
	if len(c.insert)+len(c.dead) == 0 {
		return nil
	}
	if err := b.journal.commit(ctx, c); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	b.index(now, c.insert)
	return nil
}

func (b *Bus) unrouted(m *bus.Message, now time.Time) letter {
	id := letterID{at: max(unixNano(now), 0), number: b.journal.next()}
	return letter{id: id, DeadLetter: bus.DeadLetter{
		Message: *m, Reason: fmt.Sprintf("no queue is routed to type %q", m.Type), At: time.Unix(0, id.at).UTC(),
	}}
}

// index makes messages that are in the journal deliverable.
func (b *Bus) index(now time.Time, inserted []stored) {
	for len(inserted) > 0 {
		name := inserted[0].queue
		q := b.queues[name]
		q.mu.Lock()
		for len(inserted) > 0 && inserted[0].queue == name {
			e := &entry{number: inserted[0].number}
			if t := inserted[0].message.NotBefore; !t.IsZero() {
				e.until = unixNano(t)
			}
			q.add(unixNano(now), e)
			inserted = inserted[1:]
		}
		q.mu.Unlock()
	}
}

// Receive implements bus.Bus.
func (b *Bus) Receive(ctx context.Context, name string, limit int, wait time.Duration) ([]bus.Delivery, error) {
	q, err := b.queue(ctx, name)
	if err != nil || limit <= 0 {
		return nil, err
	}
	end := b.clock.Now().Add(wait)
	for {
		now := b.clock.Now()
		taken, wake, next, err := b.take(q, unixNano(now), limit)
		if err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
		if len(taken) > 0 {
			deliveries, err := b.journal.read(name, taken)
			if err != nil {
				return nil, fmt.Errorf("receive: %w", err)
			}
			if len(deliveries) > 0 {
				return deliveries, nil
			}
			continue
		}
		left := end.Sub(now)
		if left <= 0 {
			return nil, nil
		}
		if next != 0 {
			left = min(left, time.Duration(next-unixNano(now)))
		}
		if err := b.await(ctx, wake, left); err != nil {
			return nil, err
		}
	}
}

// take takes messages from the index and records this in the journal. If there are none, the caller must try again
// when wake is closed, or at the time next, when the next message becomes visible.
func (b *Bus) take(q *queue, now int64, limit int) (taken []delivery, wake <-chan struct{}, next int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := change{bury: b.withLetterIDs(q.advance(now))}
	taken = q.take(now, limit)
	for _, d := range taken {
		c.states = append(c.states, state{ref: ref{queue: q.config.Name, number: d.number}, attempts: d.attempts})
	}
	if len(c.bury)+len(c.states) > 0 {
		err = b.journal.later(c)
	}
	if len(taken) == 0 {
		wake = q.woken()
	}
	return taken, wake, q.nextVisible(), err
}

// await returns nil when wake is closed or d has passed, or an error if ctx or the bus ends first.
func (b *Bus) await(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	fired, stop := b.clock.NewTimer(d)
	defer stop()
	select {
	case <-wake:
	case <-fired:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return fmt.Errorf("receive: %w", bus.ErrClosed)
	}
	return nil
}

// Ack implements bus.Bus.
func (b *Bus) Ack(ctx context.Context, name string, receipts ...string) error {
	q, err := b.queue(ctx, name)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var c change
	var stale error
	for _, r := range receipts {
		e, gone, err := q.find(r)
		switch {
		case gone:
		case err != nil && stale == nil:
			stale = err
		case err == nil:
			q.drop(e, 0, "")
			c.remove = append(c.remove, ref{queue: name, number: e.number})
		}
	}
	if len(c.remove) > 0 {
		if err := b.journal.later(c); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
	}
	return stale
}

// Nack implements bus.Bus.
func (b *Bus) Nack(ctx context.Context, name, receipt, reason string) error {
	q, err := b.queue(ctx, name)
	if err != nil {
		return err
	}
	now := unixNano(b.clock.Now())
	q.mu.Lock()
	e, _, err := q.find(receipt)
	if err != nil {
		q.mu.Unlock()
		return err
	}
	if int(e.attempts) >= q.config.MaxAttempts {
		buried := q.drop(e, now, reason)
		q.mu.Unlock()
		return b.makeDeadLetter(ctx, q, e, buried)
	}
	defer q.mu.Unlock()
	q.release(e, now)
	s := state{ref: ref{queue: name, number: e.number}, attempts: e.attempts, until: e.until}
	if err := b.journal.later(change{states: []state{s}}); err != nil {
		return fmt.Errorf("nack: %w", err)
	}
	return nil
}

// Reject implements bus.Bus.
func (b *Bus) Reject(ctx context.Context, name, receipt, reason string) error {
	q, err := b.queue(ctx, name)
	if err != nil {
		return err
	}
	now := unixNano(b.clock.Now())
	q.mu.Lock()
	e, _, err := q.find(receipt)
	if err != nil {
		q.mu.Unlock()
		return err
	}
	buried := q.drop(e, now, reason)
	q.mu.Unlock()
	return b.makeDeadLetter(ctx, q, e, buried)
}

// makeDeadLetter makes a message that has left the index a dead letter. If that fails, it puts the message back
// as if its last delivery had not been answered.
func (b *Bus) makeDeadLetter(ctx context.Context, q *queue, e *entry, buried burial) error {
	if err := b.journal.commit(ctx, change{bury: b.withLetterIDs([]burial{buried})}); err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.entries[e.number] = e
		q.hide(e, inFlight, e.until)
		return fmt.Errorf("bury: %w", err)
	}
	return nil
}

func (b *Bus) withLetterIDs(burials []burial) []burial {
	for i := range burials {
		burials[i].letter.number = b.journal.next()
	}
	return burials
}

// Extend implements bus.Bus.
func (b *Bus) Extend(ctx context.Context, name, receipt string) error {
	q, err := b.queue(ctx, name)
	if err != nil {
		return err
	}
	now := unixNano(b.clock.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	e, _, err := q.find(receipt)
	if err != nil {
		return err
	}
	q.extend(e, now)
	return nil
}

// Depth implements bus.Bus.
func (b *Bus) Depth(ctx context.Context, name string) (int, error) {
	q, err := b.queue(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := b.expire(q); err != nil {
		return 0, fmt.Errorf("depth: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries), nil
}

// expire buries the messages of a queue whose last delivery was not answered in time.
func (b *Bus) expire(q *queue) error {
	now := unixNano(b.clock.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	if lapsed := q.advance(now); len(lapsed) > 0 {
		return b.journal.later(change{bury: b.withLetterIDs(lapsed)})
	}
	return nil
}

// Close implements bus.Bus.
func (b *Bus) Close() error {
	b.closing.Do(func() {
		close(b.closed)
		b.closeErr = b.journal.close()
	})
	return b.closeErr
}

func (b *Bus) usable(ctx context.Context) error {
	select {
	case <-b.closed:
		return bus.ErrClosed
	default:
		return ctx.Err()
	}
}

func (b *Bus) queue(ctx context.Context, name string) (*queue, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	q := b.queues[name]
	if q == nil {
		return nil, fmt.Errorf("%w: %q", bus.ErrUnknownQueue, name)
	}
	return q, nil
}
