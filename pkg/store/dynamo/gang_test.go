package dynamo_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/bench/instant"
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	buslocal "github.com/tradewind-broker/tradewind/pkg/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/host"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/boltfile"
	"github.com/tradewind-broker/tradewind/pkg/store/dynamo"
)

// thousand is a gang of 1,000 machines in two roles.
const thousand = `apiVersion: tradewind/v1
name: thousand
tasks:
  all:
    resources: {cpus: 2}
    time: 1h
    gang:
      roles:
        chief: {run: lead, on: {taskCompleted: complete}}
        worker: {run: work, replicas: 999}
`

// watch reads after each commit, and before any other, how much of a gang is there.
type watch struct {
	*dynamo.Store
	mu      sync.Mutex
	commits int
	seen    map[string]int // how often so much of the gang was there
	begun   bool
	wrong   []string
}

func (w *watch) Commit(ctx context.Context, tx store.Tx) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Store.Commit(ctx, tx); err != nil {
		return err
	}
	for _, x := range tx.Writes {
		if job, ok := strings.CutPrefix(x.Key.Partition, "job#"); ok {
			return w.look(ctx, job)
		}
	}
	return nil
}

func (w *watch) look(ctx context.Context, job string) error {
	found, err := w.Get(ctx, store.Key(record.TaskKey(job, 0)), store.Key(record.TaskKey(job, 1)),
		store.Key(record.AttemptKey(job, 0, 1)), store.Key(record.AttemptKey(job, 1, 1)),
		store.Key(record.ClusterKey(record.ClusterID(job, 0, 1))), store.Key(record.ClusterKey(record.ClusterID(job, 1, 1))))
	if err != nil {
		return err
	}
	tasks, machines, begun := 0, 0, 0
	for _, r := range found {
		switch kind, _, _ := strings.Cut(r.Key.Sort, "#"); kind {
		case "task":
			if t := decoded[record.Task](r); t.Attempt > 0 {
				tasks++
			}
		case "attempt":
			machines += decoded[record.Attempt](r).Nodes
		case "cluster":
			if cl := decoded[record.Cluster](r); cl.Command != "" { // when it is done it is told to end
				begun += len(cl.Nodes)
			}
		}
	}
	w.commits++
	state := fmt.Sprintf("%d roles with %d machines admitted, %d begun", tasks, machines, begun)
	w.seen[state]++
	if tasks != 0 && tasks != 2 || machines != 0 && machines != 1000 || begun != 0 && begun != 1000 && !w.begun {
		w.wrong = append(w.wrong, state)
	}
	w.begun = w.begun || begun == 1000 // what is done goes by itself
	return nil
}

func decoded[T any](r store.Record) (v T) {
	if json.Unmarshal(r.Body, &v) != nil {
		panic("not a record")
	}
	return v
}

// TestAGangOfAThousandIsNeverSeenInPart admits 1,000 machines on a table of DynamoDB Local, and reads at every commit.
func TestAGangOfAThousandIsNeverSeenInPart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	ts := onLocal(t)
	st := &watch{Store: open(t, ts.cfg, ts.create(t), dynamo.Options{}), seen: map[string]int{}}
	file, err := boltfile.Open(filepath.Join(t.TempDir(), "bus.db"), boltfile.Options{NoSync: true})
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
	launched := make(chan string, 10)
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = instant.New(name, launched)
	}
	done := make(finished, 1)
	begin := make(chan string, 5000)
	var engine *host.Engine
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := broker.New(record.DefaultConfig(), broker.Ports{
		Store: st, Bus: bs, Clouds: clouds, Planner: planner.New(c, moves, planner.DefaultOptions()),
		Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: time.Now, Hook: done,
		Changed: func(cluster string) { begin <- cluster }, Committed: func() { engine.Wake() }, Log: log,
	})
	engine = host.NewEngine(b, bs, log)
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	defer running.Wait()
	defer cancel()
	spec, err := read.Job("job.yaml", strings.NewReader(thousand))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(ctx, broker.Submission{Spec: spec, Token: "1"}); err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-launched:
				task, _, _ := record.ClusterAttempt(id)
				hello(ctx, t, b, id, spec.Tasks[task].Nodes)
			}
		}
	})
	told := map[string]bool{}
	for {
		select {
		case id := <-begin:
			claims := wire.Claims{Job: record.ClusterJob(id), Cluster: id}
			w, err := b.Work(ctx, claims, 0)
			if err != nil || w.Command != wire.Run || told[id] || !strings.HasSuffix(id, ".0.1") {
				continue
			}
			told[id] = true
			for _, e := range []wire.Event{wire.Started, wire.Succeeded} {
				if err := b.Report(ctx, claims, wire.Report{ID: string(e), Attempt: id, Event: e}); err != nil {
					t.Error(err)
				}
			}
			continue
		case d := <-done:
			if d.Outcome != "succeeded" {
				t.Errorf("the job ended as %+v", d)
			}
		case <-ctx.Done():
			t.Error("the job did not end")
		}
		break
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	t.Logf("%d commits: %v", st.commits, st.seen)
	if len(st.wrong) > 0 {
		t.Errorf("seen in part: %v", st.wrong)
	}
	if st.seen["2 roles with 1000 machines admitted, 1000 begun"] == 0 {
		t.Error("it was never seen to run")
	}
}

// hello has all machines of a cluster dial home, one after the other.
func hello(ctx context.Context, t *testing.T, b *broker.Broker, id string, nodes int) {
	for rank := range nodes {
		claims := wire.Claims{Job: record.ClusterJob(id), Cluster: id, Rank: rank}
		address := fmt.Sprintf("10.0.%d.%d", rank/250, rank%250)
		if _, err := b.Hello(ctx, claims, wire.Hello{Address: address}); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}
