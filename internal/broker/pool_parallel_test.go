package broker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestParallelSessionsTakeEachMachineOnce: eight schedule functions run at once, and place the tasks of many queues
// on few machines. Each machine must be taken once. The clock stands still, so each function keeps its first view of
// the machines: a function that comes second must detect the conflict at its commit.
func TestParallelSessionsTakeEachMachineOnce(t *testing.T) {
	w := newBench(t)
	ctx := context.Background()
	if err := w.b.Users.SetPool(ctx, "lab", record.PoolSettings{Partitions: 9}); err != nil {
		t.Fatal(err)
	}
	const machines, cpus = 6, 8.0
	for i := range machines {
		m := wire.PoolClaims{Pool: "lab", Machine: fmt.Sprint("m", i), Joined: w.now}
		r := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: cpus, MemoryGiB: 64}}
		if _, err := w.b.Agents.SyncMachine(ctx, m, r); err != nil {
			t.Fatal(err)
		}
	}
	ready := w.readyTasks(24)
	brokers := make([]*broker.Broker, 8)
	for i := range brokers {
		cfg := config.Default()
		cfg.Scheduler, cfg.Schedulers = i, len(brokers)
		ports := w.b.Ports()
		ports.Store, ports.Now = w.store, func() time.Time { return w.now }
		ports.Tokens = func(wire.Claims) (string, error) { return "token", nil }
		brokers[i] = broker.New(cfg, ports)
	}
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() {
			for n := i; n < len(ready); n += len(brokers) {
				for _, err := range b.Functions.Handle(ctx, events.FnSchedule, []events.Event{ready[n]}) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	views, err := w.b.Views.Pools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tasks := 0
	for _, m := range views[0].Machines {
		tasks += len(m.Tasks)
		if m.Used.CPUs > cpus {
			t.Errorf("%s has %g vCPUs and holds %g", m.ID, cpus, m.Used.CPUs)
		}
	}
	if want := machines * int(cpus) / 4; tasks != want {
		t.Errorf("%d tasks are on the machines of the pool, which have room for %d", tasks, want)
	}
}

// readyTasks submits n jobs of one task, each to a queue that only it uses. It returns the events that announce the
// tasks.
func (w *bench) readyTasks(n int) []events.Event {
	w.t.Helper()
	ctx := context.Background()
	for i := range n {
		spec, err := read.Job("job.yaml", strings.NewReader(fmt.Sprintf(
			"apiVersion: tradewind/v1\nname: job%d\nqueue: q%d\ntasks: {a: {run: a, resources: {cpus: 4+}, time: 1h}}\n", i, i)))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.b.Users.Submit(ctx, broker.Submission{Spec: spec, Token: fmt.Sprint(i)}); err != nil {
			w.t.Fatal(err)
		}
	}
	var ready []events.Event
	for {
		pending, err := w.store.Outbox(ctx, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(pending) == 0 {
			return ready
		}
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				w.t.Fatal(err)
			}
			if _, is := e.Data.(events.TaskReady); is {
				ready = append(ready, e)
			} else {
				for _, fn := range events.Routes()[e.Type()] {
					w.b.Functions.Handle(ctx, fn, []events.Event{e})
				}
			}
			if err := w.store.Published(ctx, p.ID); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
