package command

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Interrupts counts the requests to stop: at the first one a command ends what it does, at the second the process ends
// at once.
type Interrupts struct {
	env   *Env
	first chan struct{}

	mu     sync.Mutex
	since  time.Time // of the first; zero is none yet
	atExit func()    // gives the terminal back
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

// sameRequest is how soon after another an interrupt means the same one: wrappers such as timeout and go run pass on
// what the terminal sent already.
const sameRequest = 400 * time.Millisecond

// interrupt asks to stop.
func (i *Interrupts) interrupt() {
	now := i.env.Now()
	i.mu.Lock()
	first := i.since.IsZero()
	if first {
		i.since = now
	}
	again := now.Sub(i.since) >= sameRequest
	leave := i.atExit
	i.mu.Unlock()
	if first {
		close(i.first)
	}
	if !again {
		return
	}
	if leave != nil {
		leave()
	}
	_, _ = fmt.Fprintln(i.env.Err,
		"left at once; what is left behind is cleared by the next tradewind on the same state folder")
	if i.env.Exit != nil {
		i.env.Exit(ExitInterrupted)
	}
}

// OnLeave has f called before the process ends at once.
func (i *Interrupts) OnLeave(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.atExit = f
}

// Context ends with the first interrupt, or its parent.
func (i *Interrupts) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return Within(parent, i.first)
}

// After ends a while after the first interrupt: a job that is just being handed in can be cancelled once it is there,
// but nobody waits for a broker that does not answer.
func (i *Interrupts) After(parent context.Context, a time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-ctx.Done():
		case <-i.first:
			time.AfterFunc(a, cancel)
		}
	}()
	return ctx, cancel
}

// Until is Context until hold is called, and ends with its parent alone from then on: for what is opened within it and
// is to outlast an interrupt, of which somebody else takes care.
func (i *Interrupts) Until(parent context.Context) (ctx context.Context, hold func()) {
	held := make(chan struct{})
	ctx, _ = within(parent, i.first, held)
	return ctx, sync.OnceFunc(func() { close(held) })
}

// Within ends when stop is closed, or with its parent.
func Within(parent context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	return within(parent, stop, nil)
}

// within is Within until held is closed.
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

// First is closed by the first interrupt.
func (i *Interrupts) First() <-chan struct{} { return i.first }
