package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// meter is a store that counts its requests.
type meter struct {
	store.Store
	reads, commits int
}

func (c *meter) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	c.reads++
	return c.Store.Get(ctx, keys...)
}

func (c *meter) Query(ctx context.Context, partition, prefix string, p store.Page) ([]store.Record, bool, error) {
	c.reads++
	return c.Store.Query(ctx, partition, prefix, p)
}

func (c *meter) Commit(ctx context.Context, tx store.Tx) error {
	c.commits++
	return c.Store.Commit(ctx, tx)
}

// hops counts what happens between two moments: hops (the longest chain of events), events, invocations of functions
// and the API, and requests to the store.
type hops struct{ Hops, Events, Invocations, Reads, Commits int }

// hopBench is an agentBench that counts hops.
type hopBench struct {
	*agentBench
	counted meter
	hops
}

func newHopBench(t *testing.T, tasks string) *hopBench {
	t.Helper()
	r := &hopBench{agentBench: &agentBench{bench: newBench(t)}}
	r.counted.Store = r.store
	ports := r.b.Ports()
	ports.Store = &r.counted
	r.b = broker.New(config.Default(), ports)
	r.submit(tasks, "1")
	return r
}

// travel delivers events until none remain or a machine is launched. Events that exist at the same time are delivered
// together, in one batch for each function. provision waits for clouds, so it runs when no other function has an
// event.
func (r *hopBench) travel() {
	r.t.Helper()
	launched := r.launches()
	batches := map[string][]events.Event{}
	for {
		pending, err := r.store.Outbox(r.t.Context(), 1000)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(pending)+len(batches) == 0 || r.launches() > launched {
			return
		}
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				r.t.Fatal(err)
			}
			r.Events++
			for _, fn := range events.Routes()[e.Type()] {
				batches[fn] = append(batches[fn], e)
			}
			if err := r.store.Published(r.t.Context(), p.ID); err != nil {
				r.t.Fatal(err)
			}
		}
		r.Hops++
		alone := len(batches) == 1
		for _, fn := range events.Functions() {
			if batch := batches[fn]; len(batch) > 0 && (fn != events.FnProvision || alone) {
				delete(batches, fn)
				r.Invocations++
				for i, err := range r.b.Functions.Handle(r.t.Context(), fn, batch) {
					if err != nil {
						r.t.Fatalf("%s on %s: %v", fn, batch[i].Type(), err)
					}
				}
			}
		}
	}
}

func (r *hopBench) launches() (n int) {
	for _, c := range r.cloud {
		n += len(c.launched)
	}
	return n
}

// tell sends a report of the machine of an attempt of the first task.
func (r *hopBench) tell(attempt int, id string, e wire.Event) {
	r.t.Helper()
	r.Invocations++
	c := wire.Claims{Job: r.job, Cluster: record.ClusterID(r.job, 0, attempt)}
	if err := r.b.Agents.Report(context.Background(), c, wire.Report{ID: id, Attempt: c.Cluster, Event: e, Notice: 2 * time.Minute}); err != nil {
		r.t.Fatal(err)
	}
}

// since returns the counts since its previous call.
func (r *hopBench) since() hops {
	h := r.hops
	h.Reads, h.Commits = r.counted.reads, r.counted.commits
	r.hops, r.counted.reads, r.counted.commits = hops{}, 0, 0
	return h
}

// TestHopsToAMachine counts the hops from a submission to its machine, and from an interruption notice to the next
// machine (while the first machine saves its work, and afterwards). Each more hop would make the broker slower and
// more expensive.
func TestHopsToAMachine(t *testing.T) {
	r := newHopBench(t, "{t: {run: x, time: 2h, checkpoint: {every: 15m, path: ckpt/}}}")
	want := func(what string, most hops) {
		t.Helper()
		got := r.since()
		t.Logf("%s: %+v", what, got)
		if got.Hops > most.Hops || got.Events > most.Events || got.Invocations > most.Invocations || got.Reads > most.Reads || got.Commits > most.Commits {
			t.Errorf("%s takes %+v, want at most %+v", what, got, most)
		}
	}
	r.travel()
	want("submit to launched", hops{4, 4, 5, 29, 8})
	hello(t, r.b, r.claims(0, 0))
	r.Invocations++
	r.tell(1, "1", wire.Started)
	want("launched to running", hops{0, 0, 2, 5, 2})
	r.travel()
	r.since()
	r.now = r.now.Add(time.Hour)
	r.tell(1, "2", wire.NoticeSeen)
	r.travel()
	want("while it saves", hops{2, 3, 4, 19, 5})
	if n := r.launches(); n != 1 {
		t.Fatalf("%d launches while the first machine still has the task", n)
	}
	r.now = r.now.Add(time.Minute)
	r.tell(1, "3", wire.Checkpointed)
	r.tell(1, "4", wire.Stopped)
	r.travel()
	want("saved to launched elsewhere", hops{2, 3, 4, 22, 7})
	if n := r.launches(); n != 2 {
		t.Fatalf("%d launches", n)
	}
	if got := fmt.Sprint(stored[record.Task](r.agentBench, "task#000000").Attempt, stored[record.Job](r.agentBench, "job").Plan.Version); got != "2 2" {
		t.Errorf("attempt and plan are %s", got)
	}
}
