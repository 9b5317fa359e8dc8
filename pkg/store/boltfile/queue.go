package boltfile

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxGroup    = 4096    // changes made together
	maxDeferred = 1 << 16 // changes that wait without anyone waiting for them
	settleTurns = 16      // of other goroutines, between groups
)

// task is a change on its way.
type task struct {
	change    func(*Tx) error
	committed func()
	state     atomic.Int32  // queued, begun or withdrawn
	done      chan struct{} // closed when it is over; nil of a deferred one
	err       error
}

const (
	queued int32 = iota
	begun
	withdrawn
)

func (t *task) begin() bool    { return t.state.CompareAndSwap(queued, begun) }
func (t *task) withdraw() bool { return t.state.CompareAndSwap(queued, withdrawn) }

func (t *task) finish(err error) {
	t.err = err
	if t.done != nil {
		close(t.done)
	}
}

// queue is what waits for the committer.
type queue struct {
	mu       sync.Mutex
	tasks    []*task
	deferred int // of the tasks
	delay    time.Duration
	timer    *time.Timer
	due      bool // what is deferred has waited long enough
	closed   bool
	failed   error

	wake chan struct{} // has room for one: there is something to commit now
}

func (q *queue) start(delay time.Duration) {
	q.delay = delay
	q.wake = make(chan struct{}, 1)
	q.timer = time.AfterFunc(time.Hour, q.deferredDue)
	q.timer.Stop()
}

func (q *queue) deferredDue() {
	q.mu.Lock()
	q.due = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add queues a task that is waited for.
func (q *queue) add(t *task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.usable(); err != nil {
		return err
	}
	q.tasks = append(q.tasks, t)
	q.signal()
	return nil
}

// deferTask queues a task for later, or says that there are so many that the caller must wait.
func (q *queue) deferTask(t *task) (wait bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.usable(); err != nil {
		return false, err
	}
	if q.deferred >= maxDeferred {
		return true, nil
	}
	q.tasks = append(q.tasks, t)
	q.deferred++
	if q.deferred == 1 {
		q.timer.Reset(q.delay)
	}
	return false, nil
}

// take returns the next group, all that is queued up to a bound, and whether there was any. What
// is deferred alone is left to wait for its time: taken right after another group, it would cost a
// wait for the disk of its own.
func (q *queue) take() (group []*task, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == q.deferred && !q.due && !q.closed {
		return nil, false
	}
	n := min(len(q.tasks), maxGroup)
	for _, t := range q.tasks[:n] {
		if t.done == nil {
			q.deferred--
		}
		if t.begin() {
			group = append(group, t)
		}
	}
	clear(q.tasks[:n])
	q.tasks = q.tasks[n:]
	if len(q.tasks) == 0 {
		q.tasks = nil // lets the array go
		q.due = false
		q.timer.Stop()
	}
	return group, n > 0
}

// settle lets those who were just answered queue their next tasks, up to so many as before, for
// they would otherwise miss the next group by a moment and wait for the disk twice.
func (q *queue) settle(before int) {
	for range settleTurns {
		q.mu.Lock()
		n := len(q.tasks)
		q.mu.Unlock()
		if n >= before {
			return
		}
		runtime.Gosched()
	}
}

// putBack queues deferred tasks again, before all others, for when the disk may
// take them. It returns false if there is no such time.
func (q *queue) putBack(tasks []*task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.usable() != nil {
		return false // what is deferred may be lost
	}
	for _, t := range tasks {
		t.state.Store(queued)
	}
	q.tasks = append(tasks, q.tasks...)
	q.deferred += len(tasks)
	q.timer.Reset(q.delay)
	if len(q.tasks) > q.deferred { // some wait for their turn
		q.signal()
	}
	return true
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.timer.Stop()
	q.mu.Unlock()
	q.signal()
}

// over says that there is and will be nothing to do.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed && len(q.tasks) == 0
}

// fail makes every later task end with ErrFailed.
func (q *queue) fail(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.failed = cause
	}
}

func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFailed, q.failed)
}

// usable returns why no more tasks are taken. Callers hold q.mu.
func (q *queue) usable() error {
	switch {
	case q.closed:
		return ErrClosed
	case q.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, q.failed)
	}
	return nil
}
