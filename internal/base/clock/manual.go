package clock

import (
	"context"
	"sync"
	"time"
)

// Manual is a clock for tests whose time changes only by calls. Its wall time is its virtual time.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	changed chan struct{} // closed and replaced at every move and at every new waiter
	waiting int
}

// NewManual returns a clock that shows the time now.
func NewManual(now time.Time) *Manual {
	return &Manual{now: now, changed: make(chan struct{})}
}

// Now returns the time to which the clock was last moved.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Wall returns d.
func (m *Manual) Wall(d time.Duration) time.Duration { return d }

// Advance moves the clock forward by d and wakes the callers that wait for a time up to then.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	m.broadcast()
}

// After returns nil when the clock has reached until.
func (m *Manual) After(ctx context.Context, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting++
	m.broadcast()
	defer func() { m.waiting-- }()
	for m.now.Before(until) {
		if err := m.await(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Waiters returns nil when at least n callers are in After. A test calls it before it moves the clock, so that the
// tested code is waiting.
func (m *Manual) Waiters(ctx context.Context, n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.waiting < n {
		if err := m.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await releases the lock until something changes.
func (m *Manual) await(ctx context.Context) error {
	changed := m.changed
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Manual) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}
