package bustest

import (
	"sync"
	"time"
)

// Clock is a clock that only tests advance. It is the clock to inject into a driver
// for the suite, and other tests use it as well.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	timers  map[*timer]struct{}
	changed chan struct{} // closed and replaced when a timer is set
}

type timer struct {
	at    time.Time
	fired chan time.Time
}

// NewClock returns a clock with the time now.
func NewClock(now time.Time) *Clock {
	return &Clock{now: now, timers: make(map[*timer]struct{}), changed: make(chan struct{})}
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer returns a channel that receives the time once the clock has advanced by
// d, and a function that stops the timer.
func (c *Clock) NewTimer(d time.Duration) (fired <-chan time.Time, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.now.Add(d), fired: make(chan time.Time, 1)}
	c.timers[t] = struct{}{}
	c.fire()
	close(c.changed)
	c.changed = make(chan struct{})
	return t.fired, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

// Advance advances the clock by d and fires the timers that are due.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

func (c *Clock) fire() {
	for t := range c.timers {
		if !t.at.After(c.now) {
			t.fired <- c.now
			delete(c.timers, t)
		}
	}
}

// AwaitTimers returns when at least n timers are set, that is, when n goroutines wait
// for time to pass.
func (c *Clock) AwaitTimers(n int) {
	c.await(func() bool { return len(c.timers) >= n })
}

// AwaitDue returns when a timer is set that fires at then or earlier, that is, when a goroutine waits for it.
func (c *Clock) AwaitDue(then time.Time) {
	c.await(func() bool {
		for t := range c.timers {
			if !t.at.After(then) {
				return true
			}
		}
		return false
	})
}

func (c *Clock) await(holds func() bool) {
	for {
		c.mu.Lock()
		held, changed := holds(), c.changed
		c.mu.Unlock()
		if held {
			return
		}
		<-changed
	}
}
