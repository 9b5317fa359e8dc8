package host_test

import (
	"context"
	"fmt"
	"path/filepath"
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
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

type finished chan events.DAGFinished

func (f finished) Notify(_ context.Context, e events.Event) error {
	if d, ok := e.Data.(events.DAGFinished); ok {
		f <- d
	}
	return nil
}

type rig struct {
	b    *broker.Broker
	done finished
}

// newRig returns a broker on disk. Its clouds answer at once.
func newRig(ctx context.Context, tb testing.TB) *rig {
	tb.Helper()
	file, err := bolt.OpenFile(filepath.Join(tb.TempDir(), "db"), bolt.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	st := bolt.New(file)
	var bs bus.Bus
	if bs, err = buslocal.New(file, buslocal.Config{Queues: host.Queues(), Route: events.Routes()}); err != nil {
		tb.Fatal(err)
	}
	c, err := catalog.Default()
	if err != nil {
		tb.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		tb.Fatal(err)
	}
	agents := &instant.Agents{Launched: make(chan string, 100000), Ready: make(chan string, 100000)}
	clouds := map[string]cloud.Cloud{}
	for _, name := range c.Clouds() {
		clouds[name] = instant.New(name, agents.Launched)
	}
	r := &rig{done: make(finished, 10)}
	var engine *host.Engine
	r.b = broker.New(config.Default(), broker.Ports{
		Store: st, Bus: bs, Clouds: clouds, Planner: planner.New(c, moves, planner.DefaultOptions()),
		Tokens: func(wire.Claims) (string, error) { return "token", nil }, Now: time.Now, Hook: r.done,
		Changed: agents.Changed, Committed: func(context.Context, []store.Event) { engine.Wake() },
	})
	agents.Broker = r.b
	engine = host.NewEngine(r.b.Functions, bs, slogDiscard())
	go engine.Run(ctx)     //nolint:errcheck // ends with ctx
	go agents.Run(ctx, 64) //nolint:errcheck // ends with ctx
	return r
}

func wide(n int) *dag.Job {
	j := &dag.Job{Name: "wide", Objective: dag.MinimizeCost, Format: dag.Native}
	for i := range n {
		j.Tasks = append(j.Tasks, dag.Task{
			Name: fmt.Sprintf("t%05d", i), Nodes: 1, Recorded: time.Second, Time: dag.TimeEstimate{Default: time.Minute},
			Resources: []dag.Resources{{CPUs: dag.Range{Min: 2}}},
		})
	}
	return j
}

func BenchmarkTransitions(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := newRig(ctx, b)
	const tasks = 1000
	b.ResetTimer()
	for i := range b.N {
		if _, err := r.b.Users.Submit(ctx, broker.Submission{Spec: wide(tasks), Token: fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
		if d := <-r.done; d.Outcome != "succeeded" {
			b.Fatal(d)
		}
	}
	b.ReportMetric(float64(b.N*tasks)/b.Elapsed().Seconds(), "tasks/s")
}
