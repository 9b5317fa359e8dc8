package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// opener opens an empty store, and returns the meter of its capacity units if it has one.
type opener func(ctx context.Context, name string) (store.Store, *dynamo.Meter, error)

// environment is where situations are simulated.
type environment struct {
	name   string
	lambda bool // its API is behind a gateway, and its functions also publish events that have no record
	open   opener
	tell   func(format string, args ...any) // reports progress and measurements
}

// deployment is a broker and its API on a store. It only does what the benchmark requests.
type deployment struct {
	environment
	store   *apitest.Counted
	meter   *dynamo.Meter
	commits int
	bus     *inbox
	ports   broker.Ports
	broker  *broker.Broker
	api     *api.API
	logs    *logstore.Store
	server  *httptest.Server
	door    *apiCounter
	clock   *clock.Manual
	cloud   *apitest.Cloud
	key     []byte
	folder  string
	rows    []*row
}

// inbox is a bus that keeps the events published on it.
type inbox struct {
	bus.Bus
	messages []bus.Message
}

// Publish implements bus.Bus.
func (b *inbox) Publish(_ context.Context, messages ...bus.Message) error {
	b.messages = append(b.messages, messages...)
	return nil
}

func (b *inbox) take() []bus.Message {
	out := b.messages
	b.messages = nil
	return out
}

// deploy creates a deployment on an empty store.
func deploy(ctx context.Context, p environment, name string) (*deployment, error) {
	s, meter, err := p.open(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &deployment{
		environment: p, store: &apitest.Counted{Store: s}, meter: meter, bus: &inbox{}, cloud: &apitest.Cloud{},
		clock: clock.NewManual(apitest.Start()), key: bytes.Repeat([]byte("k"), token.MinKeyBytes),
	}
	d.store.Committed = func() { d.commits++ }
	if d.folder, err = os.MkdirTemp("", "tradewind-limits-logs-*"); err != nil {
		return nil, err
	}
	if d.logs, err = logstore.New(d.folder, 0); err != nil {
		return nil, err
	}
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = d.cloud
	}
	opt := planner.DefaultOptions()
	opt.Now = nil
	d.ports = broker.Ports{
		Store: d.store, Bus: d.bus, Clouds: clouds, Planner: planner.New(c, moves, opt), Moves: moves, Now: d.clock.Now,
		Tokens: func(c wire.Claims) (string, error) { return token.Mint(d.key, c) },
	}
	return d, d.restart()
}

// unit reads records without the broker's cache.
func (d *deployment) unit(ctx context.Context) *txn.Unit {
	return txn.NewTransactor(d.ports.Store, d.ports.Now, config.Default(), txn.Hooks{}).NewUnit(ctx, "bench")
}

// restart starts a new process on the store, with empty caches.
func (d *deployment) restart() (err error) {
	if d.server != nil {
		d.api.Close()
		d.server.Close()
	}
	hub := api.NewHub()
	d.ports.Changed = hub.Changed
	d.broker = broker.New(config.Default(), d.ports)
	d.api, err = api.New(api.Config{
		Broker: api.PortsOf(d.broker), Token: apitest.Token, Hub: hub, Logs: d.logs, Now: d.clock.Now,
		Verify: func(s string) (wire.Claims, error) { return token.Verify(d.key, s, d.clock.Now()) },
	})
	if err != nil {
		return err
	}
	d.door = &apiCounter{api: d.api, lambda: d.lambda}
	d.server = httptest.NewServer(d.door)
	return nil
}

func (d *deployment) close() error {
	d.api.Close()
	d.server.Close()
	return errors.Join(d.logs.Close(), d.store.Close(), os.RemoveAll(d.folder))
}

func (d *deployment) client() *client.Client { return client.New(d.server.URL, apitest.Token) }

// pending returns the events published since the last call, and those in the outbox.
func (d *deployment) pending(ctx context.Context) (out []events.Event, err error) {
	for n := 1; n > 0; {
		if n, err = d.broker.Functions.Relay(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range d.bus.take() {
		e, err := events.Parse(m.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// settle handles events until only events of the held types are left; it drops those.
func (d *deployment) settle(ctx context.Context, held ...string) error {
	for {
		list, err := d.pending(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, e := range list {
			if slices.Contains(held, e.Type()) {
				continue
			}
			for _, fn := range events.Routes()[e.Type()] {
				if err := errors.Join(d.broker.Functions.Handle(ctx, fn, []events.Event{e})...); err != nil {
					return fmt.Errorf("%s on %s: %w", fn, e.Type(), err)
				}
			}
		}
	}
}

// batch is a list of records to write unconditionally.
type batch []store.Write

func (b *batch) put(key store.Key, v any) error {
	body, err := json.Marshal(v)
	*b = append(*b, store.Write{Key: key, Expect: store.Any, Body: body})
	return err
}

// write writes the records in groups, one transaction at a time: concurrent ones wait for a lock in DynamoDB Local.
func (d *deployment) write(ctx context.Context, b batch) error {
	const together = 25
	for some := range slices.Chunk(b, together) {
		if err := d.store.Store.Commit(ctx, store.Tx{Writes: some}); err != nil {
			return err
		}
	}
	return nil
}

// measure starts counting for a row of the table; done adds the row.
func (d *deployment) measure(what string, most int) (done func()) {
	r, counted := d.counting(what, most)
	return func() {
		counted()
		d.rows = append(d.rows, r)
	}
}

// counting starts counting; done completes the row.
func (d *deployment) counting(what string, most int) (r *row, done func()) {
	d.store.Take()
	d.commits = 0
	d.door.take()
	r = &row{what: what, place: d.name, maxRequests: most, units: d.meter != nil, lambda: d.lambda}
	before, begin := d.meter.Usage().Total, time.Now()
	return r, func() {
		r.took = time.Since(begin)
		reads := d.store.Take()
		r.requests, r.records = int(reads.Requests)+d.commits, int(reads.Records)
		if d.meter != nil {
			u := d.meter.Usage().Total
			r.requests, r.read, r.write = u.Requests-before.Requests, u.Read-before.Read, u.Write-before.Write
		}
		r.answers = d.door.take()
	}
}

// pass makes a function handle an event and the events to itself that follow, one invocation each, as on AWS.
func (d *deployment) pass(ctx context.Context, what string, most int, fn string, data events.Data) error {
	whole := &row{events: map[string]int{}}
	for todo := []events.Event{events.New(fn, "bench", d.clock.Now(), data)}; len(todo) > 0; todo = todo[1:] {
		r, done := d.counting(what, most)
		if err := errors.Join(d.broker.Functions.Handle(ctx, fn, todo[:1])...); err != nil {
			return err
		}
		done()
		whole.add(r)
		list, err := d.pending(ctx)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.Type() == data.Type() && fn == events.FnReconcile {
				todo = append(todo, e)
			} else {
				whole.events[e.Type()]++
			}
		}
	}
	d.rows = append(d.rows, whole)
	return nil
}

// add adds an invocation to a row of several; the time of the row is that of the longest.
func (r *row) add(one *row) {
	r.what, r.place, r.maxRequests, r.units = one.what, one.place, one.maxRequests, one.units
	r.invocations++
	r.requests, r.records = r.requests+one.requests, r.records+one.records
	r.read, r.write = r.read+one.read, r.write+one.write
	r.hardest, r.took = max(r.hardest, one.requests), max(r.took, one.took)
}
