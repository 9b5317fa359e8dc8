package cli

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// interrupts counts the requests to stop: at the first one a command ends what it does, at the second the process ends
// at once.
type interrupts struct {
	env   *Env
	first chan struct{}

	mu     sync.Mutex
	since  time.Time // of the first; zero is none yet
	atExit func()    // gives the terminal back
}

func newInterrupts(ctx context.Context, env *Env) *interrupts {
	i := &interrupts{env: env, first: make(chan struct{})}
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

// sameRequest is how soon after another an interrupt means the same one: wrappers such as timeout and go run pass on what the
// terminal sent already.
const sameRequest = 400 * time.Millisecond

// interrupt asks to stop.
func (i *interrupts) interrupt() {
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
	_, _ = fmt.Fprintln(i.env.Err, "left at once; what is left behind is cleared by the next tradewind on the same state folder")
	if i.env.Exit != nil {
		i.env.Exit(ExitInterrupted)
	}
}

// onLeave has f called before the process ends at once.
func (i *interrupts) onLeave(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.atExit = f
}

// context ends with the first interrupt, or its parent.
func (i *interrupts) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-i.first:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
