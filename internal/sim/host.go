package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// hostCount is the number of hosts that share the store and the queues.
const hostCount = 3

// host is a machine that runs the broker. Its processes crash together and lose their memory.
type host struct {
	w         *world
	name      string
	number    int
	up        bool
	broker    *broker.Broker
	processes []*process
}

func newHost(w *world, i int) *host {
	h := &host{w: w, name: fmt.Sprintf("host%d", i), number: i, up: true}
	h.dropMemory()
	return h
}

// dropMemory drops the broker's data in memory.
func (h *host) dropMemory() {
	w, cfg := h.w, h.w.cfg
	if w.opt.Break == breaks.Overtaking {
		cfg.OverdueAfter = 0
	}
	if w.opt.Break == breaks.Homesick {
		cfg.Stores = config.Stores{}
	}
	if w.opt.Break == breaks.Hurried {
		cfg.SilentFor = 15 * time.Minute
	}
	cfg.Scheduler = h.number
	var data grant.Store
	if w.moves {
		data = w.objects
	}
	h.broker = broker.New(cfg, broker.Ports{
		Data: data, AtOnce: 1, Store: w.store, Decoded: w.decoded, Bus: w.bus, Clouds: w.cloudPorts(),
		Services: w.servicePorts(),
		Planner:  w.planner, Moves: weather.Moves(), Tokens: seal,
		Now:     func() time.Time { return w.Now },
		Policy:  func(context.Context) *scheduler.Policy { return w.rules.Policy },
		Objects: w.users, Prices: priceSource{w},
		Changed: w.network.changed,
		Committed: func(context.Context, []store.Event) {
			w.engine.relayWithin(w.rand.engine.Between(0, 50*time.Millisecond))
		},
	})
}

// crash ends all processes of a host except but, which has control and ends by itself.
func (h *host) crash(but *process) {
	h.crashFor(but, h.w.rand.process.Spread(time.Second, 5*time.Minute))
}

// crashFor is crash with a given time until the restart.
func (h *host) crashFor(but *process, d time.Duration) {
	h.up = false
	for i := 0; i < len(h.processes); {
		if p := h.processes[i]; p != but {
			p.kill() // removes it
			continue
		}
		i++
	}
	h.w.After(d, h.restart)
}

func (h *host) restart() {
	if h.up || h.w.post != nil && h.w.post.isAway() {
		return
	}
	h.up = true
	h.dropMemory()
	h.w.Say(h.name, "restarts", "")
	h.w.engine.pollAll()
	h.w.engine.relayWithin(0)
}

// anyHost draws a running host, or nil if there is none.
func (w *world) anyHost() *host {
	up := make([]*host, 0, len(w.hosts))
	for _, h := range w.hosts {
		if h.up {
			up = append(up, h)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return timeline.Pick(w.rand.engine, up)
}

// notedPlanner wraps a planner and records the jobs without a feasible plan. Only these may fail for that reason.
type notedPlanner struct {
	w     *world
	inner broker.Planner
}

// Plan implements broker.Planner.
func (p *notedPlanner) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	p.w.before("plan")
	plan, err := p.inner.Plan(ctx, in)
	if err == nil && plan.Status == record.PlanInfeasible {
		p.w.check.Infeasible(in.Spec.Name, in.Now, p.opens(ctx, in))
	}
	return plan, err
}

// opens reports whether there would be a plan once all temporary blocks have ended.
func (p *notedPlanner) opens(ctx context.Context, in planinput.Input) bool {
	last, all := in.Now, in.Blocks
	in.Blocks = nil
	for _, k := range all {
		if k.Kind == string(cloud.Auth) && k.Count >= record.MaxBlockDoublings {
			in.Blocks = append(in.Blocks, k)
		} else if k.Until.After(last) {
			last = k.Until
		}
	}
	if in.DeadlineHours != nil {
		left := max(*in.DeadlineHours-last.Sub(in.Now).Hours(), 0)
		in.DeadlineHours = &left
	}
	plan, err := p.inner.Plan(ctx, in)
	return err == nil && plan.Status != record.PlanInfeasible
}

// Reserves implements broker.Planner.
func (p *notedPlanner) Reserves(ctx context.Context) bool { return p.inner.Reserves(ctx) }

// engine delivers messages to handlers, empties the outbox and runs the schedules.
type engine struct {
	w        *world
	relayAt  time.Time // time of the next relay; zero if none is planned
	relaying int
	ticks    int
	stopped  bool // the schedules are stopped
}

func newEngine(w *world) *engine { return &engine{w: w} }

// Limits of concurrent work, and periods of the schedules.
const (
	parallel       = 3 // concurrent batches of one function
	scheduling     = 8 // concurrent batches of schedule, which share queues
	relays         = 2
	batchMost      = 10
	relayIdle      = 5 * time.Second
	reconcileEvery = 2 * time.Minute // less than a quarter of broker.Config.Overhead

	redriveEvery = 40 * time.Minute
)

// begin starts the schedules.
func (e *engine) begin() {
	if e.w.opt.Break != breaks.NoReconcile {
		e.every(reconcileEvery, "reconcile", func() events.Data { return events.BrokerReconcile{} })
	}
	e.every(weather.PricesEvery, "prices", func() events.Data { return events.MarketTicked{} })
	e.every(12*time.Hour, "catalog", func() events.Data { return events.CatalogRefresh{} })
	e.redriveLater()
	if e.w.managed != nil {
		e.watchServices()
	}
	if !e.w.opt.steady {
		e.w.sky.BeginPrices()
	}
}

// every emits an event periodically.
func (e *engine) every(d time.Duration, name string, data func() events.Data) {
	e.w.After(d, func() {
		if e.stopped {
			return
		}
		e.ticks++
		id := fmt.Sprintf("%s/%d", name, e.ticks)
		e.w.emit("schedule", id, data())
		e.every(d, name, data)
	})
}

// redriveLater makes an operator redrive the dead letters from time to time.
func (e *engine) redriveLater() {
	e.w.After(redriveEvery, func() {
		if e.stopped {
			return
		}
		e.redrive()
		e.redriveLater()
	})
}

func (e *engine) redrive() {
	if n, err := e.w.bus.Redrive(context.Background(), ""); err == nil && n > 0 {
		e.w.Say("operator", "redrives", fmt.Sprint(n))
	}
}

// emit sends the broker an event from outside. The sender tries once: clouds and clocks do not wait.
func (w *world) emit(source, id string, data events.Data) {
	h := w.anyHost()
	if h == nil {
		return
	}
	w.start(h, "emit "+id, func(ctx context.Context, b *broker.Broker) {
		_ = b.Functions.Emit(ctx, source, id, data)
	}, nil)
}

func (e *engine) pollAll() {
	for _, q := range e.w.bus.queues {
		e.poll(q, e.w.Now)
	}
}

// poll plans a poll of a queue no later than at.
func (e *engine) poll(q *queue, at time.Time) {
	if at.Before(e.w.Now) {
		at = e.w.Now
	}
	if !q.pollAt.IsZero() && !q.pollAt.After(at) {
		return
	}
	q.pollAt = at
	e.w.At(at, func() {
		if !q.pollAt.Equal(at) {
			return
		}
		q.pollAt = time.Time{}
		e.receive(q)
	})
}

// receive gives the visible messages of a queue to processes, up to the maximum number of processes.
func (e *engine) receive(q *queue) {
	if b := e.w.opt.Break; b == breaks.Stuck && q.Name == events.FnAdvance ||
		b == breaks.Deaf && q.Name == events.FnInterrupt {
		return
	}
	if stalled, until := e.w.sky.Stalled(q.Name); stalled {
		e.w.Count("function stalls")
		e.poll(q, until)
		return
	}
	for q.busy < atOnce(q.Name) {
		h := e.w.anyHost()
		if h == nil {
			return // a restart polls
		}
		batch, err := e.w.bus.Receive(context.Background(), q.Name, e.batch(q.Name), 0)
		if err != nil {
			e.w.Violate(check.InvErrors, err.Error())
			return
		}
		if len(batch) == 0 {
			break
		}
		q.busy++
		e.w.start(h, q.Name, func(ctx context.Context, b *broker.Broker) { e.handle(ctx, b, q, batch) }, func(bool) {
			q.busy--
			e.poll(q, e.w.Now)
		})
	}
	if at, ok := q.next(); ok && q.busy < atOnce(q.Name) {
		if !at.After(e.w.Now) { // overtaken by others
			at = e.w.Now.Add(time.Second)
		}
		e.poll(q, at)
	}
}

// atOnce is the number of concurrent batches of a function.
func atOnce(fn string) int {
	if fn == events.FnSchedule {
		return scheduling
	}
	return parallel
}

// batch draws the number of messages in a batch.
func (e *engine) batch(fn string) int {
	if broker.TraitsOf(fn).Acts {
		return 1
	}
	return 1 + e.w.rand.engine.IntN(batchMost)
}

// relayWithin plans a relay of the outbox within d.
func (e *engine) relayWithin(d time.Duration) {
	at := e.w.Now.Add(d)
	if e.relaying >= relays || !e.relayAt.IsZero() && !e.relayAt.After(at) {
		return
	}
	e.relayAt = at
	e.w.At(at, func() {
		if !e.relayAt.Equal(at) {
			return
		}
		e.relayAt = time.Time{}
		e.relay()
	})
}

func (e *engine) relay() {
	h := e.w.anyHost()
	if h == nil || e.w.check.OutboxEmpty() {
		return
	}
	e.relaying++
	e.w.start(h, "relay", func(ctx context.Context, b *broker.Broker) {
		_, _ = b.Functions.Relay(ctx) // it is repeated while the outbox is not empty
	}, func(bool) {
		e.relaying--
		if !e.w.check.OutboxEmpty() {
			e.relayWithin(e.w.rand.engine.Between(0, time.Second))
		}
	})
}
