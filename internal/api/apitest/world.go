// Package apitest is an in-memory deployment for tests of the API and of code built on it: the real broker over
// store/mem, a planner that takes the first offer that is not blocked, a cloud that refuses launches on request, and
// a clock that only a test moves.
//
// Nothing happens by itself: Drain handles all events, and nodes act only when a test makes them. So a test controls
// the exact state of a job.
package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// Token is the user token of a World.
const Token = "a-user-token-of-some-length" //nolint:gosec // only for tests

// Start is the initial time of a World's clock.
func Start() time.Time { return time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC) }

// World is an in-memory deployment.
type World struct {
	Store  *Counted
	Config config.Config
	Ports  broker.Ports // of Broker
	Broker *broker.Broker
	API    *api.API
	Server *httptest.Server
	Clock  *clock.Manual
	Cloud  *Cloud
	Dead   *Dead
	Logs   *logstore.Store
	Data   *filegrant.Store // of the folder Dir, where jobs keep their data
	Dir    string
	// Granted is the store to which the broker grants access. It is Data, unless a test replaces it.
	Granted *Granted

	t       testing.TB
	key     []byte
	reports int
	ticks   int
}

// Granted is a store that a test can replace.
type Granted struct{ grant.Store }

// Lend implements grant.Lender.
func (g *Granted) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	return grant.Lend(ctx, g.Store, l)
}

// Option changes the configuration of a World's API.
type Option func(*api.Config)

// New makes a World and serves its API until the test ends.
func New(t testing.TB, options ...Option) *World {
	t.Helper()
	w := &World{
		t: t, Store: &Counted{Store: mem.New()}, Clock: clock.NewManual(Start()), Cloud: &Cloud{}, Dead: &Dead{},
		key: bytes.Repeat([]byte("k"), token.MinKeyBytes),
	}
	logs, err := logstore.New(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Logs = logs
	hub := api.NewHub()
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	planner := Planner{}
	w.openData()
	w.Granted = &Granted{w.Data}
	w.Config = config.Default()
	w.Config.StoreURL, w.Config.Private = "file://"+w.Dir, []string{"private/"}
	w.Ports = broker.Ports{
		Data:  w.Granted,
		Store: w.Store, Planner: planner, Moves: moves, Now: w.Clock.Now, Changed: hub.Changed,
		Clouds: w.Cloud.Everywhere(), Tokens: func(c wire.Claims) (string, error) { return token.Mint(w.key, c) },
	}
	w.Broker = broker.New(w.Config, w.Ports)
	cfg := api.Config{
		Broker: api.PortsOf(w.Broker), Token: Token, Hub: hub, Logs: logs, Dead: w.Dead, Now: w.Clock.Now,
		Version: "test",
		Verify:  func(s string) (wire.Claims, error) { return token.Verify(w.key, s, w.Clock.Now()) },
		Machines: &api.MachineTokens{
			Mint:   func(c wire.PoolClaims) (string, error) { return token.MintPool(w.key, c) },
			Verify: func(s string) (wire.PoolClaims, error) { return token.VerifyPool(w.key, s, w.Clock.Now()) },
		},
		Plan: func(ctx context.Context, spec *dag.Job) (*record.Plan, error) {
			return planner.Plan(ctx, planinput.Input{Spec: spec, Now: w.Clock.Now()})
		},
	}
	for _, o := range options {
		o(&cfg)
	}
	if w.API, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewServer(w.API)
	t.Cleanup(func() {
		w.API.Close()
		w.Server.Close()
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// openData opens the jobs' store and serves it.
func (w *World) openData() {
	w.t.Helper()
	w.Dir = w.t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.Data.ServeHTTP(out, r)
	}))
	w.t.Cleanup(server.Close)
	var err error
	if w.Data, err = filegrant.New(w.Dir, filegrant.Options{BaseURL: server.URL}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.Data.Close() })
}

// Drain handles events until there are none.
func (w *World) Drain() {
	w.t.Helper()
	ctx := context.Background()
	for {
		pending, err := w.Store.Outbox(ctx, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(pending) == 0 {
			return
		}
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, fn := range events.Routes()[e.Type()] {
				if err := errors.Join(w.Broker.Functions.Handle(ctx, fn, []events.Event{e})...); err != nil {
					w.t.Fatalf("%s on %s: %v", fn, e.Type(), err)
				}
			}
			if err := w.Store.Published(ctx, p.ID); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// Submit stores a job and drains, so that its first tasks are launched.
func (w *World) Submit(spec *dag.Job) string {
	w.t.Helper()
	job, err := w.Broker.Users.Submit(context.Background(),
		broker.Submission{Spec: spec, Token: spec.Name, Source: spec.Name + ".yaml"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Drain()
	return job.ID
}

// Task returns a task of a job as the API shows it.
func (w *World) Task(job, name string) apitypes.TaskView {
	w.t.Helper()
	d, err := w.Broker.Views.JobDetail(context.Background(), job)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(d.TaskList, func(t apitypes.TaskView) bool { return t.Name == name })
	if i < 0 {
		w.t.Fatalf("job %s has no task %s", job, name)
	}
	return d.TaskList[i]
}

// Node is a machine of a running attempt.
type Node struct {
	w      *World
	claims wire.Claims
	// Token is the node's own.
	Token string
	// Logged is the number of bytes that the task has logged.
	Logged int64
}

// Node returns a node of the last attempt of a task.
func (w *World) Node(job, task string, rank int) *Node {
	w.t.Helper()
	t := w.Task(job, task)
	n := &Node{w: w, claims: wire.Claims{
		Job: job, Cluster: record.ClusterID(job, t.Index, t.Attempts), Rank: rank,
		Expires: w.Clock.Now().Add(100 * time.Hour),
	}}
	n.Token = w.Mint(n.claims)
	return n
}

// Mint signs a token.
func (w *World) Mint(c wire.Claims) string {
	w.t.Helper()
	s, err := token.Mint(w.key, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// MintPool signs a token of a pool.
func (w *World) MintPool(c wire.PoolClaims) string {
	w.t.Helper()
	s, err := token.MintPool(w.key, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Attempt returns the ID of the attempt, as used in the node's reports and logs.
func (n *Node) Attempt() string { return n.claims.Cluster }

// Start makes the node say hello and report that its task runs.
func (n *Node) Start() *Node {
	n.w.t.Helper()
	_, err := n.w.Broker.Agents.Hello(context.Background(), n.claims,
		wire.Hello{Address: fmt.Sprintf("10.0.0.%d", n.claims.Rank+1), Version: "test"})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.w.Drain()
	return n.Report(wire.Report{Event: wire.Started})
}

// Save makes the node report a checkpoint.
func (n *Node) Save(progress float64) *Node {
	n.w.t.Helper()
	return n.Report(wire.Report{Event: wire.Checkpointed, Seq: n.w.reports + 1, Prefix: "ckpt/", Progress: progress})
}

// Succeed makes the node report success.
func (n *Node) Succeed() *Node { n.w.t.Helper(); return n.Report(wire.Report{Event: wire.Succeeded}) }

// Report makes the node send a report, and drains.
func (n *Node) Report(r wire.Report) *Node {
	n.w.t.Helper()
	n.w.reports++
	r.ID, r.Attempt = fmt.Sprint("r", n.w.reports), n.claims.Cluster
	if err := n.w.Broker.Agents.Report(context.Background(), n.claims, r); err != nil {
		n.w.t.Fatal(err)
	}
	n.w.Drain()
	return n
}

// Print makes the node log a line.
func (n *Node) Print(line string) *Node { n.w.t.Helper(); return n.print(line) }

// PrintAt makes the node log a line that it read from the task at a time.
func (n *Node) PrintAt(line string, at time.Time) *Node {
	n.w.t.Helper()
	return n.print(line, wire.LogMark{Offset: n.Logged, At: at})
}

// PrintMarked makes the node log a line with marks.
func (n *Node) PrintMarked(line string, marks ...wire.LogMark) *Node {
	n.w.t.Helper()
	return n.print(line, marks...)
}

func (n *Node) print(line string, marks ...wire.LogMark) *Node {
	n.w.t.Helper()
	data := []byte(line + "\n")
	err := n.w.Logs.Append(context.Background(),
		api.Log{Job: n.claims.Job, Attempt: n.claims.Cluster, Rank: n.claims.Rank}, n.Logged, data, marks...)
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.Logged += int64(len(data))
	return n
}

// Take makes the cloud preempt a task's machines.
func (w *World) Take(job, task string) {
	w.t.Helper()
	t := w.Task(job, task)
	cluster := record.ClusterID(job, t.Index, t.Attempts)
	err := w.Broker.Functions.Emit(context.Background(), "test", "taken/"+cluster, events.SpotInterrupted{
		Cluster: cluster, Job: job, Kind: string(cloud.Taken), At: w.Clock.Now(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Drain()
}

// Tick reports prices of spot markets, and drains.
func (w *World) Tick(prices ...events.PriceTick) {
	w.t.Helper()
	w.ticks++
	err := w.Broker.Functions.Emit(context.Background(), "test", fmt.Sprint("tick-", w.ticks),
		events.MarketTicked{Prices: prices})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Drain()
}

// Joins makes a machine with the given capacity join a pool.
func (w *World) Joins(pool, machine string, has wire.PoolCapacity) {
	w.t.Helper()
	now := w.Clock.Now()
	c := wire.PoolClaims{Pool: pool, Machine: machine, Joined: now, Expires: now.Add(100 * time.Hour)}
	for range 2 { // it counts as joined from the second report on
		if _, err := w.Broker.Agents.SyncMachine(context.Background(), c, wire.PoolReport{Capacity: has}); err != nil {
			w.t.Fatal(err)
		}
		w.Drain()
	}
}

// Request sends a request with the user token and a body.
func (w *World) Request(method, path, body string) *http.Response {
	w.t.Helper()
	return w.Do(method, path, body, http.Header{"Authorization": {"Bearer " + Token}})
}

// Do sends a request with headers. The response body is closed when the test ends.
func (w *World) Do(method, path, body string, header http.Header) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.Server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header
	if h := header.Get("Host"); h != "" {
		req.Host = h
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// Dead is a bus's dead letters.
type Dead struct {
	mu      sync.Mutex
	letters []bus.DeadLetter
}

// Add adds a letter.
func (d *Dead) Add(l bus.DeadLetter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letters = append(d.letters, l)
}

// DeadLetters lists letters like a bus. It knows only the queues of the functions.
func (d *Dead) DeadLetters(_ context.Context, queue string, limit int) ([]bus.DeadLetter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if queue != "" && !slices.Contains(events.Functions(), queue) {
		return nil, fmt.Errorf("%w: %s", bus.ErrUnknownQueue, queue)
	}
	var out []bus.DeadLetter
	for _, l := range d.letters {
		if (queue == "" || l.Queue == queue) && len(out) < limit {
			out = append(out, l)
		}
	}
	return out, nil
}

// Redrive removes letters.
func (d *Dead) Redrive(_ context.Context, queue string, ids ...string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.letters)
	d.letters = slices.DeleteFunc(d.letters, func(l bus.DeadLetter) bool {
		return (queue == "" || l.Queue == queue) && (len(ids) == 0 || slices.Contains(ids, l.ID))
	})
	return before - len(d.letters), nil
}

// URI returns the URI of a key in the jobs' store.
func (w *World) URI(key string) string { return "file://" + w.Dir + "/" + key }
