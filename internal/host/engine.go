// Package host runs the broker's functions in one process: workers that receive
// from the bus, the relay that empties the outbox, timers for the schedules,
// the API on loopback, and the watcher of the folder for DAG files. It is one
// of three hosts; AWS Lambda and the simulator run the same functions.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Engine delivers events to functions until it is stopped.
type Engine struct {
	Functions *broker.Functions
	Bus       bus.Bus
	Log       *slog.Logger
	// Parallel is the number of batches, or acting events, that a function handles at the same time; 0 means the
	// default of each function.
	Parallel map[string]int
	// Handled, if set, is called after each batch with its events, their errors, and the time that the function took.
	Handled func(function string, batch []events.Event, errs []error, took time.Duration)

	wake chan struct{}
}

// NewEngine makes an engine. The caller calls Wake after each commit that put events into the outbox.
func NewEngine(f *broker.Functions, bs bus.Bus, log *slog.Logger) *Engine {
	return &Engine{Functions: f, Bus: bs, Log: log, wake: make(chan struct{}, 1)}
}

// Wake wakes the relay, because there are events in the outbox.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and then waits until running functions have ended.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { e.relay(ctx) })
	for _, fn := range events.Functions() {
		w := newWorker(e, fn)
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

// relayIdle is the maximum time for which the relay waits to be woken before it checks the outbox.
const relayIdle = time.Second

func (e *Engine) relay(ctx context.Context) {
	timer := time.NewTimer(relayIdle)
	defer timer.Stop()
	for ctx.Err() == nil {
		n, err := e.Functions.Relay(ctx)
		if err != nil && ctx.Err() == nil {
			e.Log.Warn("relay", "err", err)
		}
		if n > 0 && err == nil {
			continue
		}
		timer.Reset(relayIdle)
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-timer.C:
		}
	}
}

// worker runs one function.
type worker struct {
	e        *Engine
	fn       string
	parallel int
	batch    int
	grouped  bool // batches of one group are handled one after the other

	mu      sync.Mutex
	busy    map[string][]bus.Delivery // by group: deliveries that wait for the current batch
	parked  []string                  // groups that wait for a free slot
	running int
	held    int
	room    chan struct{}
	wg      sync.WaitGroup
}

// acting are the functions that call other systems and wait for them. Because they mostly wait, more of them run at
// once.
const (
	actingParallel  = 32
	decidedParallel = 8
	batchMost       = 40
	heldMost        = 1024
)

func newWorker(e *Engine, fn string) *worker {
	w := &worker{e: e, fn: fn, parallel: decidedParallel, batch: batchMost, grouped: true,
		busy: map[string][]bus.Delivery{}, room: make(chan struct{}, 1)}
	switch traits := broker.TraitsOf(fn); {
	case traits.Parallel:
		w.parallel, w.batch, w.grouped = actingParallel, 1, false
	case traits.Acts:
		w.parallel, w.batch = 2, 1
	}
	if n := e.Parallel[fn]; n > 0 {
		w.parallel = n
	}
	return w
}

// receiveWait is the maximum time for which one call of Receive waits for a message.
const receiveWait = 30 * time.Second

func (w *worker) run(ctx context.Context) {
	defer w.wg.Wait()
	for ctx.Err() == nil {
		if !w.wait(ctx) {
			return
		}
		deliveries, err := w.e.Bus.Receive(ctx, w.fn, 2*batchMost, receiveWait)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, bus.ErrClosed) {
				w.e.Log.Warn("receive", "function", w.fn, "err", err)
				_ = clock.Pause(ctx, time.Second)
			}
			continue
		}
		w.mu.Lock()
		for _, d := range deliveries {
			w.take(ctx, d)
		}
		w.mu.Unlock()
	}
}

// wait returns when there is room for more deliveries, or false when ctx ended.
func (w *worker) wait(ctx context.Context) bool {
	for {
		w.mu.Lock()
		full := w.held >= heldMost || !w.grouped && w.running >= w.parallel
		w.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-w.room:
		}
	}
}

// take starts a delivery, or queues it until the current batch of its group has ended. The caller holds the lock.
func (w *worker) take(ctx context.Context, d bus.Delivery) {
	w.held++
	group := d.Group
	if !w.grouped {
		group = d.Receipt
	}
	if waiting, ok := w.busy[group]; ok {
		w.busy[group] = append(waiting, d)
		return
	}
	if w.running >= w.parallel {
		w.busy[group] = []bus.Delivery{d}
		w.parked = append(w.parked, group)
		return
	}
	w.start(ctx, group, []bus.Delivery{d})
}

// start handles deliveries of a group, and then those that have arrived in the meantime. The caller holds the lock.
func (w *worker) start(ctx context.Context, group string, first []bus.Delivery) {
	w.busy[group] = nil
	w.running++
	w.wg.Go(func() {
		for batch := first; len(batch) > 0; batch = w.next(&group) {
			w.handle(ctx, batch)
		}
	})
}

// next returns the next batch of the group, or of a group that waits for a slot. If there is none, it frees the slot.
func (w *worker) next(group *string) []bus.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.busy[*group]
	if len(waiting) == 0 {
		delete(w.busy, *group)
		if len(w.parked) == 0 {
			w.running--
			w.signal()
			return nil
		}
		*group, w.parked = w.parked[0], w.parked[1:]
		waiting = w.busy[*group]
	}
	n := min(len(waiting), w.batch)
	w.busy[*group] = waiting[n:]
	return waiting[:n]
}

func (w *worker) signal() {
	select {
	case w.room <- struct{}{}:
	default:
	}
}

// handle runs the function on a batch and acknowledges or returns each delivery.
func (w *worker) handle(ctx context.Context, batch []bus.Delivery) {
	defer func() {
		w.mu.Lock()
		w.held -= len(batch)
		w.signal()
		w.mu.Unlock()
	}()
	list := make([]events.Event, 0, len(batch))
	parsed := make([]bus.Delivery, 0, len(batch))
	for _, d := range batch {
		ev, err := events.Parse(d.Body)
		if err != nil {
			w.returnFailed(ctx, d, fmt.Errorf("%w: %w", record.ErrFinal, err))
			continue
		}
		list, parsed = append(list, ev), append(parsed, d)
	}
	if len(list) == 0 {
		return
	}
	began := time.Now()
	errs := w.e.Functions.Handle(ctx, w.fn, list)
	took := time.Since(began)
	var done []string
	for i, d := range parsed {
		if errs[i] == nil {
			done = append(done, d.Receipt)
			continue
		}
		w.returnFailed(ctx, d, errs[i])
	}
	if w.e.Handled != nil {
		w.e.Handled(w.fn, list, errs, took)
	}
	if len(done) == 0 {
		return
	}
	if err := w.e.Bus.Ack(context.WithoutCancel(ctx), w.fn, done...); err != nil {
		w.e.Log.Warn("ack", "function", w.fn, "err", err)
	}
}

// warnFromAttempt is the attempt from which on failures of a delivery are logged without --verbose.
const warnFromAttempt = 3

// returnFailed returns a failed delivery to the bus for a retry, or rejects it if the error is final.
func (w *worker) returnFailed(ctx context.Context, d bus.Delivery, cause error) {
	free := context.WithoutCancel(ctx)
	var err error
	if errors.Is(cause, record.ErrFinal) {
		w.e.Log.Error("given up", "function", w.fn, "type", d.Type, "id", d.ID, "err", cause)
		err = w.e.Bus.Reject(free, w.fn, d.Receipt, cause.Error())
	} else {
		if ctx.Err() == nil {
			level := slog.LevelDebug // most succeed at the next attempt
			if d.Attempt >= warnFromAttempt {
				level = slog.LevelWarn
			}
			w.e.Log.Log(free, level, "will be retried", "function", w.fn, "type", d.Type, "attempt", d.Attempt,
				"err", cause)
		}
		err = w.e.Bus.Nack(free, w.fn, d.Receipt, cause.Error())
	}
	if err != nil && !errors.Is(err, bus.ErrStaleReceipt) && !errors.Is(err, bus.ErrClosed) {
		w.e.Log.Warn("settle", "function", w.fn, "err", err)
	}
}

// Queues returns the delivery rules of every function's queue.
func Queues() []bus.QueueConfig {
	var out []bus.QueueConfig
	for _, fn := range events.Functions() {
		out = append(out, bus.QueueConfig{
			Name: fn, Visibility: 10 * time.Minute, MaxAttempts: 20, BackoffMin: 50 * time.Millisecond,
			BackoffMax: 30 * time.Second,
		})
	}
	return out
}
