package cost

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/outbox"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// world is a deployment in virtual time, with one job.
type world struct {
	ctx      context.Context //nolint:containedctx // a world is used for one call
	now      time.Time
	seq      int
	todo     agenda
	meter    *meter
	table    *table
	machines *fakeEC2
	logs     *logs.Logs
	brokers  map[string]*broker.Broker // by function, because each sandbox has its own cache
	queues   map[string]*queue
	relayAt  time.Time
	outbox   []int // sizes of the items since the last run of the relay
	hours    []float64
	job      string
	finished bool
	ends     map[time.Time]int // number of machines that end at a time
	failure  error
}

// queue is the queue of one function.
type queue struct {
	waiting []events.Event
	polled  bool // a poll is due
}

// task is an action at a time.
type task struct {
	at  time.Time
	seq int
	do  func()
}

type agenda []task

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(task)) } //nolint:forcetypeassert // only tasks are pushed
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// after schedules do after d.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.todo, task{w.now.Add(d), w.seq, do})
}

// newWorld returns a deployment of the broker's functions that plans with p.
func newWorld(ctx context.Context, p broker.Planner, cfg config.Config, start time.Time) *world {
	w := &world{
		ctx: ctx, now: start, meter: newMeter(), brokers: map[string]*broker.Broker{}, queues: map[string]*queue{},
		ends: map[time.Time]int{},
	}
	w.table = &table{Store: mem.New(), meter: w.meter}
	w.table.onCommit = func(size int) {
		w.outbox = append(w.outbox, size)
		w.relayLater()
	}
	w.logs = &logs.Logs{Store: w.table}
	w.machines = &fakeEC2{world: w, live: map[string]cloud.LaunchSpec{}}
	for _, fn := range append(events.Functions(), fnAPI, fnRelay) {
		w.queues[fn] = &queue{}
		w.brokers[fn] = broker.New(cfg, broker.Ports{
			Store: outbox.DropUnheard(w.table), Clouds: map[string]cloud.Cloud{"aws": w.machines}, Planner: p,
			Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: func() time.Time { return w.now },
			Hook: w, Bus: direct{world: w},
		})
	}
	return w
}

// Notify implements broker.Hook: it notes the end of the job.
func (w *world) Notify(_ context.Context, e events.Event) error {
	if d, ok := e.Data.(events.DAGFinished); ok {
		w.finished = true
		if d.Outcome != string(apitypes.JobSucceeded) {
			w.failure = fmt.Errorf("cost: the job %s: %s", d.Outcome, d.Reason)
		}
	}
	w.meter.wait(waitObject) // to publish it
	return nil
}

// run runs all actions until the job has finished and none remain.
func (w *world) run() error {
	for w.todo.Len() > 0 && w.failure == nil {
		next, ok := heap.Pop(&w.todo).(task)
		if !ok {
			break
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.now = next.at
		next.do()
	}
	if w.failure == nil && !w.finished {
		return errors.New("cost: the job made no progress")
	}
	return w.failure
}

// withClass runs do and counts its requests under class c.
func (w *world) withClass(c class, do func()) {
	before := w.meter.class
	w.meter.class = c
	do()
	w.meter.class = before
}

// invoke runs do as one invocation of a function, and counts it and its duration.
func (w *world) invoke(fn string, do func()) {
	if w.meter.calls[fn] == 0 {
		w.meter.add(LambdaSeconds, coldStart*sizeOf(fn).memory)
	}
	w.meter.calls[fn]++
	w.meter.took = ownTime
	do()
	w.meter.add(LambdaRequests, 1)
	w.meter.add(LambdaSeconds, w.meter.took*sizeOf(fn).memory)
	if fn != fnAPI {
		w.meter.add(LogBytes, logBytes/1e9)
	}
}

// relayLater schedules the relay, as the stream does: it gets all events that are committed by then.
func (w *world) relayLater() {
	if w.relayAt.After(w.now) {
		return
	}
	w.relayAt = w.now.Add(streamEvery)
	c := w.meter.class
	w.after(streamEvery, func() { w.withClass(c, w.relay) })
}

// relay publishes the outbox.
func (w *world) relay() {
	w.invoke(fnRelay, func() {
		pending := w.table.Pending()
		ids, bodies := make([]string, len(pending)), make([][]byte, len(pending))
		for i, p := range pending {
			ids[i], bodies[i] = p.ID, p.Body
		}
		w.send(bodies)
		w.table.published(w.outbox)
		w.outbox = w.outbox[:0]
		w.fail(w.table.Published(w.ctx, ids...))
	})
}

// send puts events into the queues of their functions, and announced ones on the event bus, like internal/bus/aws.
func (w *world) send(bodies [][]byte) {
	announced, sent := 0, map[string]int{}
	for _, body := range bodies {
		e, err := events.Parse(body)
		if err != nil {
			w.fail(err)
			return
		}
		if slices.Contains(events.Announced(), e.Type()) {
			w.meter.add(BusEvents, chunks(len(body), 64<<10))
			announced++
		}
		for _, fn := range events.Routes()[e.Type()] {
			sent[fn]++
			w.deliver(fn, e)
		}
	}
	for ; announced > 0; announced -= perCall {
		w.meter.wait(waitPutEvents)
	}
	for _, n := range sent {
		calls := chunks(n, perCall)
		w.meter.add(QueueRequests, calls)
		w.meter.wait(calls * waitQueue)
	}
}

// direct is the bus for events that bypass the outbox.
type direct struct {
	bus.Bus
	world *world
}

// Publish implements bus.Bus.
func (d direct) Publish(_ context.Context, messages ...bus.Message) error {
	bodies := make([][]byte, len(messages))
	for i, m := range messages {
		bodies[i] = m.Body
	}
	d.world.send(bodies)
	return nil
}

// perCall is the maximum number of messages in a call of SQS or EventBridge.
const perCall = 10

// deliver puts an event in a function's queue.
func (w *world) deliver(fn string, e events.Event) {
	c := w.meter.class
	w.after(polled, func() {
		q := w.queues[fn]
		q.waiting = append(q.waiting, e)
		if !q.polled {
			q.polled = true
			w.after(0, func() { w.withClass(c, func() { w.poll(fn) }) })
		}
	})
}

// poll takes the messages of a queue, batch by batch.
func (w *world) poll(fn string) {
	q := w.queues[fn]
	q.polled = false
	for len(q.waiting) > 0 {
		n := min(len(q.waiting), sizeOf(fn).batch)
		batch := q.waiting[:n]
		q.waiting = q.waiting[n:]
		w.meter.add(QueueRequests, chunks(n, 10)) // received
		w.invoke(fn, func() { w.handle(fn, batch) })
		w.meter.add(QueueRequests, chunks(n, 10)) // deleted
	}
}

// handle runs a function on a batch. A function that waits for a cloud waits for all events of the batch at once.
func (w *world) handle(fn string, batch []events.Event) {
	w.meter.batchN[fn] += len(batch)
	var errs []error
	if fn != events.FnProvision {
		errs = w.brokers[fn].Functions.Handle(w.ctx, fn, batch)
	} else {
		longest := 0.0
		for i := range batch {
			w.meter.took = 0
			errs = append(errs, w.brokers[fn].Functions.Handle(w.ctx, fn, batch[i:i+1])...)
			longest = max(longest, w.meter.took)
		}
		w.meter.took = ownTime + longest
	}
	for i, err := range errs {
		switch {
		case errors.Is(err, record.ErrFinal):
			w.fail(err)
		case err != nil:
			w.meter.add(QueueRequests, 1) // changes its visibility
			w.meter.wait(waitQueue)
			w.after(retryAfter, func() {
				w.queues[fn].waiting = append(w.queues[fn].waiting, batch[i])
				w.poll(fn)
			})
		}
	}
}

func (w *world) fail(err error) {
	if err != nil && w.failure == nil {
		w.failure = err
	}
}

// submit handles a DAG file that appears in the bucket.
func (w *world) submit(spec *dag.Job) {
	w.meter.add(ObjectWrites, 1)
	w.meter.add(BusEvents, 1) // S3's event, charged like our own
	w.invoke(events.FnSubmit, func() {
		w.meter.add(ObjectReads, 1)
		w.meter.wait(waitObject)
		job, err := w.brokers[events.FnSubmit].Users.Submit(w.ctx, broker.Submission{Spec: spec, Token: "cost"})
		w.fail(err)
		w.job = job.ID
		w.meter.wait(4 * waitDescribe) // switching schedules and polling on; these calls are free
	})
}

// schedule invokes a function at an interval while the job is open.
func (w *world) schedule(fn string, every time.Duration, data events.Data) {
	w.after(every, func() {
		if w.finished {
			return
		}
		w.withClass(byTime, func() {
			w.seq++
			w.meter.add(ScheduleRuns, 1)
			e := events.New(fmt.Sprint(fn, w.seq), "tradewind/schedule", w.now, data)
			w.invoke(fn, func() { w.handle(fn, []events.Event{e}) })
		})
		w.schedule(fn, every, data)
	})
}
