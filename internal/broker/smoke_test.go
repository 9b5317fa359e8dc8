package broker_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// fakeCloud is a cloud that launches everything that is not refused.
type fakeCloud struct {
	mu       sync.Mutex
	name     string
	refuse   func(cloud.LaunchSpec) error
	clusters map[string]cloud.LaunchSpec
	launched []string
	faults   map[string]string // of clusters whose machines ended while they started
}

func (s *fakeCloud) Name() string { return s.name }

func (s *fakeCloud) Launch(_ context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(spec); err != nil {
			return nil, err
		}
	}
	s.clusters[spec.Cluster] = spec
	s.launched = append(s.launched, spec.Cluster)
	return s.machines(spec), nil
}

func (s *fakeCloud) machines(spec cloud.LaunchSpec) []cloud.Machine {
	out := make([]cloud.Machine, spec.Nodes)
	for i := range out {
		if fault := s.faults[spec.Cluster]; fault != "" {
			out[i] = cloud.Machine{ID: spec.Cluster + "/m" + strconv.Itoa(i), Cluster: spec.Cluster, Rank: i,
				State: cloud.Terminated, Offer: spec.Offer, Fault: fault}
			continue
		}
		out[i] = cloud.Machine{ID: spec.Cluster + "/m" + strconv.Itoa(i), Cluster: spec.Cluster, Rank: i, State: cloud.Running, Offer: spec.Offer}
	}
	return out
}

// ended makes the machines of a cluster end while they start.
func (s *fakeCloud) ended(cluster, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = map[string]string{cluster: fault}
}

func (s *fakeCloud) Terminate(_ context.Context, cluster string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clusters, cluster)
	return nil
}

func (s *fakeCloud) Machines(context.Context, string) ([]cloud.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []cloud.Machine
	for _, spec := range s.clusters {
		out = append(out, s.machines(spec)...)
	}
	return out, nil
}

// bench is a broker with everything in memory, driven by hand.
type bench struct {
	t     *testing.T
	b     *broker.Broker
	store *mem.Store
	now   time.Time
	cloud map[string]*fakeCloud
	told  map[string]bool
	// policy is the policy of sessions; nil is the broker's own.
	policy *scheduler.Policy
	news   news
}

func newBench(t *testing.T) *bench { return newBenchOf(t, config.Default()) }

func newBenchOf(t *testing.T, cfg config.Config) *bench {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	w := &bench{t: t, store: mem.New(), now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), cloud: map[string]*fakeCloud{}, told: map[string]bool{}}
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		w.cloud[name] = &fakeCloud{name: name, clusters: map[string]cloud.LaunchSpec{}}
		clouds[name] = w.cloud[name]
	}
	opt := planner.DefaultOptions()
	opt.Now = nil
	w.b = broker.New(cfg, broker.Ports{
		Store: w.store, Clouds: clouds, Planner: planner.New(c, moves, opt), Moves: moves,
		Tokens: func(wire.Claims) (string, error) { return "token", nil },
		Now:    func() time.Time { return w.now },
		Policy: func(context.Context) *scheduler.Policy { return w.policy },
		Hook:   &w.news, Notifier: &w.news,
	})
	return w
}

// deliverAll delivers events until only those of the held types remain, and returns how many it delivered, by type.
func (w *bench) deliverAll(held ...string) map[string]int {
	count, _ := w.deliver("", held)
	return count
}

// until delivers events until there are none, or one of a type, which it returns undelivered.
func (w *bench) until(typ string) events.Event {
	_, e := w.deliver(typ, nil)
	return e
}

func (w *bench) deliver(until string, held []string) (map[string]int, events.Event) {
	w.t.Helper()
	ctx := context.Background()
	count := map[string]int{}
	for more := true; more; {
		pending, err := w.store.Outbox(ctx, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		more = false
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				w.t.Fatal(err)
			}
			if e.Type() == until {
				return count, e
			}
			if slices.Contains(held, e.Type()) {
				continue
			}
			more = true
			count[e.Type()]++
			for _, fn := range events.Routes()[e.Type()] {
				if err := w.handle(ctx, fn, e); err != nil {
					w.t.Logf("%s on %s: %v", fn, e.Type(), err)
				}
			}
			if err := w.store.Published(ctx, p.ID); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return count, events.Event{}
}

// handle runs a function on an event, whose process may end meanwhile.
func (w *bench) handle(ctx context.Context, fn string, e events.Event) (err error) {
	defer func() {
		if r := recover(); r == any(errEnded) { //nolint:errorlint // the very value that was thrown
			err = errEnded
		} else if r != nil {
			panic(r)
		}
	}()
	return w.b.Functions.Handle(ctx, fn, []events.Event{e})[0]
}

// reconcile runs reconcile, and returns what followed from it.
func (w *bench) reconcile() map[string]int {
	w.t.Helper()
	if err := w.b.Functions.Emit(context.Background(), "test", "reconcile "+w.now.String(), events.BrokerReconcile{}); err != nil {
		w.t.Fatal(err)
	}
	return w.deliverAll()
}

// work makes every launched machine do its task.
func (w *bench) work() int {
	w.t.Helper()
	ctx := context.Background()
	n := 0
	for _, s := range w.cloud {
		for id, spec := range s.clusters {
			if w.told[id] {
				continue
			}
			w.told[id] = true
			n++
			for rank := range spec.Nodes {
				c := wire.Claims{Job: record.ClusterJob(id), Cluster: id, Rank: rank}
				if _, err := w.b.Agents.Hello(ctx, c, wire.Hello{Address: "10.0.0.1"}); err != nil {
					w.t.Fatal(err)
				}
			}
			w.deliverAll()
			for rank := range spec.Nodes {
				c := wire.Claims{Job: record.ClusterJob(id), Cluster: id, Rank: rank}
				got, err := w.b.Agents.Work(ctx, c, 0)
				if err != nil || got.Command != wire.Run {
					w.t.Fatalf("work %+v %v", got, err)
				}
				for i, ev := range []wire.Event{wire.Started, wire.Succeeded} {
					r := wire.Report{ID: string(rune('a'+i)) + string(rune('0'+rank)), Attempt: id, Event: ev}
					if err := w.b.Agents.Report(ctx, c, r); err != nil {
						w.t.Fatal(err)
					}
				}
			}
			w.deliverAll()
		}
	}
	return n
}

const chain = `
apiVersion: tradewind/v1
name: chain
deadline: 6h
budget: 40
tasks:
  train:
    run: echo train
    outputs: [{name: model, size: 2GiB}]
    resources: {accelerators: V100:1}
    time: 2h
  infer:
    after: [train]
    run: echo infer
    nodes: 2
    resources: {cpus: 8+, memory: 32+}
    time: 40m
`

func TestJobRunsToEnd(t *testing.T) {
	w := newBench(t)
	spec, err := read.Job("chain.yaml", strings.NewReader(chain))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.deliverAll()
		w.now = w.now.Add(time.Minute)
		w.work()
	}
	d, err := w.b.Views.JobDetail(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.State != apitypes.JobSucceeded {
		t.Errorf("%+v", d)
	}
	story, err := w.b.Views.Explain(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range story.Entries {
		t.Log(e.At.Format("15:04:05"), e.Kind, e.Task, e.Text)
	}
}
