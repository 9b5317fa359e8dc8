package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// many writes a number of running jobs of one task, which are like the agentBench's job except for what they hold.
func (p *agentBench) many(jobs int, ledger record.Ledger) {
	p.t.Helper()
	job := stored[record.Job](p, "job")
	for i := range jobs {
		job.ID = fmt.Sprintf("many-%05d", i)
		q := &agentBench{bench: p.bench, job: job.ID}
		q.put("job", job)
		q.put("ledger", ledger)
		q.put("progress", record.Progress{Phases: []byte{record.PhaseReady}})
		body, err := json.Marshal(record.JobIndex{ID: job.ID})
		if err != nil {
			p.t.Fatal(err)
		}
		w := store.Write{Key: store.Key{Partition: "active", Sort: job.ID}, Expect: store.Any, Body: body}
		if err := p.store.Commit(p.t.Context(), store.Tx{Writes: []store.Write{w}}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// pass is what followed when a function checked all jobs.
type pass struct {
	followed    map[string]int // other events by type
	invocations int
	most        int // requests of one invocation
	chain       int // requests of the invocations that follow one after another, at most
}

// pass makes a function check all jobs. Each event is delivered a number of times.
func (p *agentBench) pass(fn string, data events.Data, deliveries int) pass {
	p.t.Helper()
	ports := p.b.Ports()
	look := &metered{Store: p.store}
	ports.Store = look
	b := broker.New(config.Default(), ports)
	out := pass{followed: map[string]int{}}
	type next struct {
		event events.Event
		chain int // requests before it
	}
	for todo := []next{{events.New(fn+p.now.String(), "test", p.now, data), 0}}; len(todo) > 0; todo = todo[1:] {
		chain := todo[0].chain
		for range deliveries {
			out.invocations++
			before := look.requests
			if errs := b.Functions.Handle(p.t.Context(), fn, []events.Event{todo[0].event}); errs[0] != nil {
				p.t.Fatal(errs[0])
			}
			out.most = max(out.most, look.requests-before)
			chain = max(chain, todo[0].chain+look.requests-before)
		}
		out.chain = max(out.chain, chain)
		list, err := p.store.Outbox(p.t.Context(), 100_000)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, pending := range list {
			e, err := events.Parse(pending.Body)
			if err != nil {
				p.t.Fatal(err)
			}
			if e.Type() == data.Type() {
				todo = append(todo, next{e, chain})
			} else {
				out.followed[e.Type()]++
			}
			if err := p.store.Published(p.t.Context(), pending.ID); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	return out
}

// TestTenThousandWaitingJobsAreReadInBatches: reconcile and tick read them in batches, with at most 1,000 requests in
// one invocation. Reconcile wakes their queue once, and tick does not wake it.
func TestTenThousandWaitingJobsAreReadInBatches(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(10_000, record.Ledger{})
	x := p.pass(events.FnReconcile, events.BrokerReconcile{}, 1)
	if len(x.followed) != 1 || x.followed[events.TypeCapacityFreed] != 1 || x.invocations != 1 || x.most > 1000 {
		t.Errorf("%+v", x)
	}
	if x = p.pass(events.FnTick, events.MarketTicked{}, 1); len(x.followed) != 0 || x.invocations != 1 || x.most > 1000 {
		t.Errorf("a tick: %+v", x)
	}
}

// TestLongWaitingJobsRest: of jobs that only wait, reconcile and tick read nothing but the index, until one of them is
// admitted or changes.
func TestLongWaitingJobsRest(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(1_000, record.Ledger{})
	p.now = p.now.Add(time.Hour)
	look := func(fn string, data events.Data) (wakes, requests, records int) {
		ports := p.b.Ports()
		seen := &metered{Store: p.store}
		ports.Store = seen
		followed := map[string]int{}
		b := broker.New(config.Default(), ports)
		if errs := b.Functions.Handle(t.Context(), fn, []events.Event{events.New(fn+p.now.String(), "test", p.now, data)}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		list, err := p.store.Outbox(t.Context(), 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, pending := range list {
			if e, err := events.Parse(pending.Body); err == nil {
				followed[e.Type()]++
			}
			if err := p.store.Published(t.Context(), pending.ID); err != nil {
				t.Fatal(err)
			}
		}
		return followed[events.TypeCapacityFreed], seen.requests, seen.records
	}
	look(events.FnReconcile, events.BrokerReconcile{}) // makes them rest
	p.now = p.now.Add(2 * time.Minute)
	if wakes, requests, records := look(events.FnReconcile, events.BrokerReconcile{}); wakes != 1 || requests > 40 || records > 1_100 {
		t.Errorf("%d queues are woken after %d requests and %d records", wakes, requests, records)
	}
	if wakes, requests, records := look(events.FnTick, events.MarketTicked{}); wakes != 0 || requests > 40 || records > 1_100 {
		t.Errorf("a tick wakes %d queues after %d requests and %d records", wakes, requests, records)
	}
	one := &agentBench{bench: p.bench, job: "many-00007"}
	if job := stored[record.Job](one, "job"); !job.Rests {
		t.Fatalf("%+v", job)
	}
	var d record.Decision
	d.PutJob(stored[record.Job](one, "job"))
	for _, w := range d.Writes {
		switch v := w.Value.(type) {
		case record.Job:
			if v.Rests {
				t.Error("a job that changes rests")
			}
		case record.JobIndex:
			if !v.RestsUntil.IsZero() || w.Key != record.ActiveKey("many-00007") {
				t.Errorf("%v is %+v", w.Key, v)
			}
		}
	}
	if len(d.Writes) != 2 {
		t.Errorf("%d records are written", len(d.Writes))
	}
}

// The planner has failed for a job, which kept running with its machines. When they are gone, its next task waits for
// a plan that only reconcile requests again. So the job must not rest, unlike one that only waits in its queue.
func TestJobThatLacksPlanDoesNotRest(t *testing.T) {
	for name, tries := range map[string]record.PlanTries{
		"a planner that failed":        {Failed: record.MaxPlanTries},
		"records that are unreadable":  {Unread: 1},
		"a planner that has succeeded": {},
	} {
		p := newAgentBench(t, "{t: {run: x}}", nil)
		if tries.Failed > 0 {
			tries.FailedAt = p.now
		}
		p.many(1, record.Ledger{})
		one := &agentBench{bench: p.bench, job: "many-00000"}
		job := stored[record.Job](one, "job")
		job.PlanTries = tries
		one.put("job", job)
		p.now = p.now.Add(2 * time.Hour)
		x := p.pass(events.FnReconcile, events.BrokerReconcile{}, 1)
		job = stored[record.Job](one, "job")
		if lacks := tries != (record.PlanTries{}); job.Rests == lacks {
			t.Errorf("%s: rests is %v", name, job.Rests)
		}
		replans := 1 // of the bench's own job, whose machine has never called
		if tries.Failed > 0 {
			replans++
		}
		if x.followed[events.TypeDAGReplan] != replans {
			t.Errorf("%s: reconcile emits %v", name, x.followed)
		}
	}
}

// silentBus is a bus that counts what is published.
type silentBus struct {
	bus.Bus
	published map[string]int
}

func (b silentBus) Publish(_ context.Context, messages ...bus.Message) error {
	for _, m := range messages {
		b.published[m.Type]++
	}
	return nil
}

// TestWalkContinuesThroughOutbox: reconcile and tick do not send themselves messages. Lambda would drop the invocation
// after the sixteenth, and leave the other jobs unchecked.
func TestWalkContinuesThroughOutbox(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(1_000, record.Ledger{Outstanding: 1})
	for fn, data := range map[string]events.Data{
		events.FnReconcile: events.BrokerReconcile{}, events.FnTick: events.MarketTicked{},
	} {
		ports, sent := p.b.Ports(), silentBus{published: map[string]int{}}
		ports.Bus = sent
		b := broker.New(config.Default(), ports)
		if errs := b.Functions.Handle(t.Context(), fn, []events.Event{events.New(fn, "test", p.now, data)}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		written := 0
		list, err := p.store.Outbox(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, pending := range list {
			if e, err := events.Parse(pending.Body); err == nil && e.Type() == data.Type() {
				written++
			}
		}
		if written == 0 || sent.published[data.Type()] != 0 {
			t.Errorf("%s: %d events to itself in the outbox, %v published", fn, written, sent.published)
		}
	}
}

// TestReconcileAndTickContinueWhereTheyStopped: five thousand jobs that hold machines take several invocations, none
// of which reads more than a function has time for. The first ends machines without a record, and the last job is
// checked as well.
func TestReconcileAndTickContinueWhereTheyStopped(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(5_000, record.Ledger{Outstanding: 1})
	last := &agentBench{bench: p.bench, job: "many-04999"}
	last.put("ledger", record.Ledger{})
	last.put("progress", record.Progress{Phases: bytes.Repeat([]byte{record.PhaseWaiting}, 1)})
	ghost := record.ClusterID("ghost-abcdef", 0, 1)
	ended := 0
	for _, c := range p.cloud {
		c.clusters[ghost] = cloud.LaunchSpec{Cluster: ghost, Nodes: 1}
	}
	for _, c := range []struct {
		fn   string
		data events.Data
		want int // dag.advance
	}{{events.FnReconcile, events.BrokerReconcile{}, 1}, {events.FnTick, events.MarketTicked{}, 0}} {
		if x := p.pass(c.fn, c.data, 1); x.invocations < 5 || x.most > 800 || x.followed[events.TypeDAGAdvance] != c.want {
			t.Errorf("%s: %+v", c.fn, x)
		}
		p.now = p.now.Add(time.Minute)
	}
	for _, c := range p.cloud {
		if _, lives := c.clusters[ghost]; !lives {
			ended++
		}
	}
	if ended != len(p.cloud) {
		t.Errorf("%d of %d machines without an owner are ended", ended, len(p.cloud))
	}
}

// TestFiftyThousandJobsAreCheckedAtTheSameTime: spans of jobs are checked by invocations that do not wait for each
// other. With 20 ms for a request, which is more than DynamoDB takes, two minutes are 6,000 requests in a row.
func TestFiftyThousandJobsAreCheckedAtTheSameTime(t *testing.T) {
	const jobs, inTime = 50_000, 6_000
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(jobs, record.Ledger{Outstanding: 1})
	for fn, data := range map[string]events.Data{
		events.FnReconcile: events.BrokerReconcile{}, events.FnTick: events.MarketTicked{},
	} {
		x := p.pass(fn, data, 1)
		t.Logf("%s: %d invocations, %d requests one after another", fn, x.invocations, x.chain)
		if x.chain > inTime || x.invocations > jobs/400 {
			t.Errorf("%s: %+v", fn, x)
		}
	}
}

// TestRepeatedDeliveryDoesNotMultiplyWalk: an event that is delivered twice is handled twice, and what follows from it
// is sent once.
func TestRepeatedDeliveryDoesNotMultiplyWalk(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	p.many(4_000, record.Ledger{Outstanding: 1})
	once := p.pass(events.FnReconcile, events.BrokerReconcile{}, 1)
	p.now = p.now.Add(time.Minute)
	if twice := p.pass(events.FnReconcile, events.BrokerReconcile{}, 2); twice.invocations != 2*once.invocations {
		t.Errorf("%d invocations if each event is delivered once, %d if twice", once.invocations, twice.invocations)
	}
}
