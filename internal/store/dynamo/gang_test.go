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

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	buslocal "github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/gangtest"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/instant"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestGangOfThousandIsNeverVisibleInPart admits a gang of 1,000 machines on a table of DynamoDB Local, and reads
// after every commit. No read may see a part of the gang.
func TestGangOfThousandIsNeverVisibleInPart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes almost a minute")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	ts := onLocal(t)
	seen := &gangtest.Observations{}
	st := gangtest.WatchedStore{Observations: seen, Store: open(t, ts.cfg, ts.create(t), dynamo.Options{})}
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
	launched := make(chan string, 10)
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = instant.New(name, launched)
	}
	done := make(finished, 1)
	begin := make(chan string, 5000)
	var engine *host.Engine
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := broker.New(config.Default(), broker.Ports{
		Store: st, Bus: bs, Clouds: clouds, Planner: planner.New(c, moves, planner.DefaultOptions()),
		Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: time.Now, Hook: done,
		Changed: func(cluster string) { begin <- cluster }, Committed: func(context.Context, []store.Event) { engine.Wake() }, Log: log,
	})
	engine = host.NewEngine(b.Functions, bs, log)
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	defer running.Wait()
	defer cancel()
	spec, err := read.Job("job.yaml", strings.NewReader(gangtest.File))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Users.Submit(ctx, broker.Submission{Spec: spec, Token: "1"}); err != nil {
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
			w, err := b.Agents.Work(ctx, claims, 0)
			if err != nil || w.Command != wire.Run || told[id] || !strings.HasSuffix(id, ".0.1") {
				continue
			}
			told[id] = true
			for _, e := range []wire.Event{wire.Started, wire.Succeeded} {
				if err := b.Agents.Report(ctx, claims, wire.Report{ID: string(e), Attempt: id, Event: e}); err != nil {
					t.Error(err)
				}
			}
			continue
		case d := <-done:
			if d.Outcome != "succeeded" {
				t.Errorf("the job finished as %+v", d)
			}
		case <-ctx.Done():
			t.Error("the job did not finish")
		}
		break
	}
	seen.Check(t)
}

// hello sends the hello of each machine of a cluster to the broker, one after the other.
func hello(ctx context.Context, t *testing.T, b *broker.Broker, id string, nodes int) {
	for rank := range nodes {
		claims := wire.Claims{Job: record.ClusterJob(id), Cluster: id, Rank: rank}
		address := fmt.Sprintf("10.0.%d.%d", rank/250, rank%250)
		if _, err := b.Agents.Hello(ctx, claims, wire.Hello{Address: address}); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}
