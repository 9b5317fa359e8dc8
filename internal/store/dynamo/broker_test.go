package dynamo_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	buslocal "github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/instant"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// layered returns a DAG of layers. Each task needs two tasks of the layer before.
func layered(layers, width int) *dag.Job {
	j := &dag.Job{Name: "layered", Objective: dag.MinimizeCost, Format: dag.Native}
	for l := range layers {
		for i := range width {
			j.Tasks = append(j.Tasks, dag.Task{
				Name: fmt.Sprintf("l%02dt%02d", l, i), Nodes: 1, Recorded: time.Second, Time: dag.TimeEstimate{Default: time.Minute},
				Resources: []dag.Resources{{CPUs: dag.Range{Min: 2}}},
			})
			if l > 0 {
				before := (l - 1) * width
				first, second := before+i, before+(i+1)%width
				j.Edges = append(j.Edges, dag.Edge{From: min(first, second), To: l*width + i}, dag.Edge{From: max(first, second), To: l*width + i})
			}
		}
	}
	return j
}

// ledger counts the writes of commits, by kind of record.
type ledger struct {
	*dynamo.Store
	mu      sync.Mutex
	kinds   map[string]*kind
	commits int

	functions map[string]float64 // write units by function
	total     float64
}

type kind struct {
	writes, bytes, largest int
	units                  float64
}

func (l *ledger) Commit(ctx context.Context, tx store.Tx) error {
	err := l.Store.Commit(ctx, tx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits++
	before := l.total
	defer func() {
		fn := "(no event)"
		for _, w := range tx.Writes {
			if f, ok := strings.CutPrefix(w.Key.Partition, "seen#"); ok {
				fn, _, _ = strings.Cut(f, "#")
			}
		}
		if err != nil {
			fn += " conflict"
		}
		l.functions[fn] += l.total - before
	}()
	factor := 2.0
	if len(tx.Writes)+min(len(tx.Events), 1) == 1 {
		factor = 1
	}
	for _, w := range tx.Writes {
		partition, _, _ := strings.Cut(w.Key.Partition, "#")
		sort, _, _ := strings.Cut(w.Key.Sort, "#")
		l.add(partition+"/"+sort, len(w.Key.Partition)+len(w.Key.Sort)+len(w.Body)+15, factor)
	}
	if len(tx.Events) > 0 {
		size := 60
		for _, e := range tx.Events {
			size += len(e.ID) + len(e.Body) + 4
		}
		l.add("outbox (before compression)", size, factor)
	}
	return err
}

func (l *ledger) add(name string, size int, factor float64) {
	k := l.kinds[name]
	if k == nil {
		k = &kind{}
		l.kinds[name] = k
	}
	k.writes++
	k.bytes += size
	k.largest = max(k.largest, size)
	units := factor * float64((size+1023)/1024)
	k.units += units
	l.total += units
}

func (l *ledger) report(t *testing.T, u dynamo.Usage) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(l.kinds), func(a, b string) int { return cmp.Compare(l.kinds[b].units, l.kinds[a].units) })
	t.Logf("%-34s %7s %8s %8s %9s", "record", "writes", "B mean", "B max", "units")
	for _, n := range names {
		k := l.kinds[n]
		t.Logf("%-34s %7d %8d %8d %9.0f", n, k.writes, k.bytes/k.writes, k.largest, k.units)
	}
	t.Logf("write units by function: %v", l.functions)
	t.Logf("%-34s %7s %8s %9s %9s", "operation", "calls", "", "read", "write")
	for _, n := range slices.Sorted(maps.Keys(u.ByOperation)) {
		o := u.ByOperation[n]
		t.Logf("%-34s %7d %8s %9.0f %9.0f", n, o.Requests, "", o.Read, o.Write)
	}
	t.Logf("%d commits; %.0f read units, %.0f write units: %.6f USD; the database reports %.0f units", l.commits, u.Total.Read, u.Total.Write, u.Total.USD(), u.Reported)
}

type finished chan events.DAGFinished

func (f finished) Notify(_ context.Context, e events.Event) error {
	if d, ok := e.Data.(events.DAGFinished); ok {
		f <- d
	}
	return nil
}

// TestBrokerOnDynamo runs the broker in one process on a table of DynamoDB Local, with clouds that answer at once. A
// DAG of 100 tasks must finish, and the table's cost must stay below a limit. Queries of the outbox are not counted,
// because in the cloud the stream replaces them.
func TestBrokerOnDynamo(t *testing.T) {
	const layers, width = 10, 10
	const mostUSD = 0.007 // a guard: the cost varies by about a tenth with concurrency
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ts := onLocal(t)
	meter := &dynamo.Meter{}
	st := &ledger{Store: open(t, ts.cfg, ts.create(t), dynamo.Options{Meter: meter}), kinds: map[string]*kind{}, functions: map[string]float64{}}
	file, err := bolt.OpenFile(filepath.Join(t.TempDir(), "bus.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	bs, err := buslocal.New(file, buslocal.Config{Queues: host.Queues(), Route: events.Routes()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	agents := &instant.Agents{Launched: make(chan string, 1000), Ready: make(chan string, 1000)}
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = instant.New(name, agents.Launched)
	}
	done := make(finished, 1)
	var engine *host.Engine
	b := broker.New(config.Default(), broker.Ports{
		Store: st, Bus: bs, Clouds: clouds, Planner: planner.New(c, moves, planner.DefaultOptions()),
		Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: time.Now, Hook: done,
		Changed: agents.Changed, Committed: func(context.Context, []store.Event) { engine.Wake() }, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	agents.Broker = b
	engine = host.NewEngine(b.Functions, bs, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	running.Go(func() { _ = agents.Run(ctx, 8) })
	job, err := b.Users.Submit(ctx, broker.Submission{Spec: layered(layers, width), Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-done:
		if d.Outcome != "succeeded" || d.Job != job.ID {
			t.Errorf("the job finished as %+v", d)
		}
	case <-ctx.Done():
		t.Error("the job did not finish")
	}
	cancel()
	running.Wait()
	u := meter.Usage()
	st.report(t, u)
	looks := u.ByOperation["Query"]
	usd := u.Total.USD() - looks.USD()
	t.Logf("without %d queries, most of them of the outbox: %.6f USD", looks.Requests, usd)
	if usd > mostUSD {
		t.Errorf("a DAG of %d tasks costs %.6f USD on the table; the maximum is %.6f", layers*width, usd, mostUSD)
	}
}
