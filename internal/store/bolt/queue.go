package bolt

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxGroup    = 4096    // changes in one group
	maxDeferred = 1 << 16 // queued changes whose caller does not wait
	settleTurns = 16      // yields to other goroutines between groups
)

// task is a queued change.
type task struct {
	change    func(*Tx) error
	alone     func() error // instead of change: runs while no other task does
	committed func()
	state     atomic.Int32  // queued, begun or withdrawn
	done      chan struct{} // closed when the task has finished; nil for a deferred task
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

// queue holds the tasks that wait for the committer.
type queue struct {
	mu       sync.Mutex
	tasks    []*task
	deferred int // how many of the tasks are deferred
	delay    time.Duration
	timer    *time.Timer
	due      bool // the deferred tasks have waited long enough
	closed   bool
	failed   error

	wake chan struct{} // capacity 1: a value means that there is something to commit now
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

// add queues a task whose caller waits for it.
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

// deferTask queues a task for later. It returns wait if too many are deferred, so that the caller must wait.
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

// nextGroup returns the next group (all queued tasks, up to maxGroup) and whether anything was queued.
// If only deferred tasks are queued, they wait for their timer: committing them right after another
// group would cost another wait for the disk.
func (q *queue) nextGroup() (group []*task, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == q.deferred && !q.due && !q.closed {
		return nil, false
	}
	n := min(len(q.tasks), maxGroup)
	if i := slices.IndexFunc(q.tasks[:n], func(t *task) bool { return t.alone != nil }); i >= 0 {
		n = max(i, 1)
	}
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
		q.tasks = nil // frees the array
		q.due = false
		q.timer.Stop()
	}
	return group, n > 0
}

// waitForCallers yields until the callers that have just got their answers have queued their next tasks, up to the
// number of tasks in the previous group. Otherwise these tasks would just miss the next group and wait for the disk
// twice.
func (q *queue) waitForCallers(before int) {
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

// putBack queues deferred tasks again, before all others, so that they are tried again when the
// disk has room. It returns false if the queue is closed or failed.
func (q *queue) putBack(tasks []*task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.usable() != nil {
		return false // deferred changes may be lost
	}
	for _, t := range tasks {
		t.state.Store(queued)
	}
	q.tasks = append(tasks, q.tasks...)
	q.deferred += len(tasks)
	q.timer.Reset(q.delay)
	if len(q.tasks) > q.deferred { // callers are waiting for some of them
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

// drained reports whether the queue is closed and empty.
func (q *queue) drained() bool {
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

// usable returns an error if the queue accepts no more tasks. Callers hold q.mu.
func (q *queue) usable() error {
	switch {
	case q.closed:
		return ErrClosed
	case q.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, q.failed)
	}
	return nil
}
