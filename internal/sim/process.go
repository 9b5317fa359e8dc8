package sim

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
)

// crash is the panic that unwinds a killed process.
type crash struct{}

// coroutine runs one process after another. A new coroutine for each process would cost more than most processes do.
type coroutine struct {
	next    func() (time.Duration, bool)
	stop    func()
	yield   func(time.Duration) bool
	process *process
}

// ended is the value that a coroutine yields when its process has ended.
const ended time.Duration = -1

func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(time.Duration) bool) {
		c.yield = yield
		for {
			c.process.run()
			if !yield(ended) {
				return
			}
		}
	})
	return c
}

// process is one call of the broker on a host. It gives up control when it waits, so that others can run between any
// two of its external operations.
type process struct {
	*coroutine
	w      *world
	host   *host
	name   string
	body   func(context.Context, *broker.Broker)
	done   func(crashed bool)
	broker *broker.Broker
	began  int // step

	killed, crashed, over bool
}

// start runs body on a host as a new process, up to its first wait. done is called when it has returned or crashed.
func (w *world) start(h *host, name string, body func(context.Context, *broker.Broker), done func(crashed bool)) {
	var c *coroutine
	if n := len(w.idle); n > 0 {
		c, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		c = newCoroutine()
	}
	c.process = &process{coroutine: c, w: w, host: h, name: name, body: body, done: done, broker: h.broker,
		began: w.Steps}
	h.processes = append(h.processes, c.process)
	c.process.resume()
}

// run runs the process to its end. If the world kills a process, its stack is unwound by a panic. Any other panic is
// a bug of the broker.
func (p *process) run() {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		p.crashed = true
		if _, ok := r.(crash); !ok {
			p.w.Violate(check.InvPanic, fmt.Sprintf("%s: %v in %s", p.name, r, frames()))
		}
	}()
	p.body(context.Background(), p.broker)
}

// frames names the functions of a panic, without the addresses that differ from run to run.
func frames() string {
	pcs := make([]uintptr, 24)
	stack := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var names []string
	for {
		f, more := stack.Next()
		if _, name, ok := strings.Cut(f.Function, "/tradewind/"); ok {
			names = append(names, fmt.Sprintf("%s:%d", name, f.Line))
		}
		if !more {
			return strings.Join(names, " < ")
		}
	}
}

// resume gives the process control until it waits or ends.
func (p *process) resume() {
	if p.over {
		return
	}
	outer := p.w.running
	p.w.running = p
	d, _ := p.next()
	p.w.running = outer
	if d != ended {
		p.w.After(d, p.resume)
		return
	}
	p.over = true
	p.w.idle = append(p.w.idle, p.coroutine)
	p.host.processes = slices.DeleteFunc(p.host.processes, func(q *process) bool { return q == p })
	if p.done != nil {
		p.w.After(0, func() { p.done(p.crashed) }) // not within another process that may have killed it
	}
}

// kill ends a waiting process.
func (p *process) kill() {
	p.killed = true
	p.resume()
}

// wait lets time pass and other processes run.
func (p *process) wait(d time.Duration) {
	if p.killed || !p.yield(d) || p.killed {
		panic(crash{})
	}
}

// before is called by the ports before an external operation of a handler. It takes time, and the process may crash.
func (w *world) before(op string) {
	p := w.running
	if p == nil {
		return
	}
	switch {
	case w.rand.process.Chance(w.faults.Slow):
		w.Count("slow operation")
		p.wait(w.rand.process.Spread(time.Second, slowest))
	case w.rand.process.Chance(w.faults.Interleave):
		p.wait(w.rand.process.Spread(time.Millisecond, 2*time.Second))
	}
	w.mayCrash(p, "before", op)
}

// after is called by the ports after the operation. The process may crash.
func (w *world) after(op string) {
	if p := w.running; p != nil {
		w.mayCrash(p, "after", op)
	}
}

// slowest exceeds the visibility time-out of every queue in a world, so that two processes can handle the same message.
const slowest = 6 * time.Minute

func (w *world) mayCrash(p *process, when, op string) {
	if !w.rand.process.Chance(w.faults.Crash) {
		return
	}
	w.Count("crash " + when + " " + strings.Fields(op)[0])
	w.Say(p.host.name, "crashes "+when, op+" of "+p.name)
	if w.rand.process.Chance(0.5) {
		p.host.crash(p)
	} else {
		p.host.dropMemory() // only the process's own sandbox crashes, like that of a cloud function
	}
	panic(crash{})
}
