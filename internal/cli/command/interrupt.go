package command

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Interrupts counts the requests to stop. At the first one a command finishes up; at the second the process exits at
// once.
type Interrupts struct {
	env *Env

	mu     sync.Mutex
	first  chan struct{} // closed by the first
	since  time.Time     // time of the first; zero means none yet
	atExit func()        // restores the terminal
}

// NewInterrupts counts the interrupts of env until ctx ends.
func NewInterrupts(ctx context.Context, env *Env) *Interrupts {
	i := &Interrupts{env: env, first: make(chan struct{})}
	if env.Interrupts != nil {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case _, ok := <-env.Interrupts:
					if !ok {
						return
					}
					i.interrupt()
				}
			}
		}()
	}
	return i
}

// duplicateWindow is the time within which two interrupts count as one: wrappers such as timeout and go run forward a
// signal that the terminal has already sent.
const duplicateWindow = 400 * time.Millisecond

// interrupt counts a request to stop.
func (i *Interrupts) interrupt() {
	now := i.env.Now()
	i.mu.Lock()
	first := i.since.IsZero()
	if first {
		i.since = now
	}
	again := now.Sub(i.since) >= duplicateWindow
	leave := i.atExit
	if first {
		close(i.first)
	}
	i.mu.Unlock()
	if !again {
		return
	}
	if leave != nil {
		leave()
	}
	_, _ = fmt.Fprintln(i.env.Err,
		"exited at once; the next tradewind on the same state folder cleans up")
	if i.env.Exit != nil {
		i.env.Exit(ExitInterrupted)
	}
}

// OnLeave registers f to be called before the process exits at once.
func (i *Interrupts) OnLeave(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.atExit = f
}

// Context returns a context that ends with the first interrupt or its parent.
func (i *Interrupts) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return Within(parent, i.First())
}

// After returns a context that ends a time after the first interrupt. A job that is being submitted can so still be
// cancelled, but no one waits for a broker that does not answer.
func (i *Interrupts) After(parent context.Context, a time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	first := i.First()
	go func() {
		select {
		case <-ctx.Done():
		case <-first:
			time.AfterFunc(a, cancel)
		}
	}()
	return ctx, cancel
}

// Until returns a context that ends with the first interrupt. After hold is called, it ends only with its parent: for
// something that is opened under it and must survive later interrupts, which the caller then handles.
func (i *Interrupts) Until(parent context.Context) (ctx context.Context, hold func()) {
	held := make(chan struct{})
	ctx, _ = within(parent, i.First(), held)
	return ctx, sync.OnceFunc(func() { close(held) })
}

// Within returns a context that ends when stop is closed or its parent ends.
func Within(parent context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	return within(parent, stop, nil)
}

// within is like Within, but ignores stop after held is closed.
func within(parent context.Context, stop, held <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-held:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// First returns a channel that the first interrupt closes.
func (i *Interrupts) First() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first
}

// Forget forgets the interrupts so far, after the user decided to continue: the next one is the first again.
func (i *Interrupts) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.since.IsZero() {
		i.since, i.first = time.Time{}, make(chan struct{})
	}
}
