package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// between is a store that calls a function right before a transaction that admits a task, once.
type between struct {
	store.Store
	other func()
}

func (s *between) Commit(ctx context.Context, tx store.Tx) error {
	for _, e := range tx.Events {
		if s.other != nil && strings.Contains(string(e.Body), events.TypeTaskAdmitted) {
			other := s.other
			s.other = nil
			other()
		}
	}
	return s.Store.Commit(ctx, tx)
}

// Two sessions over a tree decide on the same state at the same moment, each for its own queue. The rest of the quota
// they share is enough for one.
func TestConcurrentSessionsOnOneQuotaConflict(t *testing.T) {
	w := newBench(t)
	meet := &between{Store: w.store}
	ports := w.b.Ports()
	ports.Store = meet
	slow := broker.New(config.Default(), ports)
	for _, q := range []struct {
		name string
		s    record.QueueSettings
	}{{"lab", record.QueueSettings{MaxVCPU: 4}}, {"a", record.QueueSettings{Parent: "lab"}}, {"b", record.QueueSettings{Parent: "lab"}}} {
		if err := w.b.Users.SetQueue(t.Context(), q.name, q.s); err != nil {
			t.Fatal(err)
		}
	}
	w.deliverAll()
	ready := map[string]events.Event{}
	for _, queue := range []string{"a", "b"} {
		spec, err := read.Job("j.yaml", strings.NewReader(fmt.Sprintf("apiVersion: tradewind/v1\nname: j%s\nqueue: %s\ntasks: {t: {run: x, resources: {cpus: 4}}}\n", queue, queue)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: queue}); err != nil {
			t.Fatal(err)
		}
		ready[queue] = w.settleUntil(events.TypeTaskReady)
	}
	handle := func(b *broker.Broker, e events.Event) {
		if errs := b.Functions.Handle(t.Context(), events.FnSchedule, []events.Event{e}); errs[0] != nil {
			t.Errorf("%v", errs[0])
		}
	}
	met := false
	meet.other = func() { met = true; handle(w.b, ready["b"]) }
	handle(slow, ready["a"])
	queues, err := w.b.Views.Queues(t.Context())
	if err != nil || !met {
		t.Fatalf("%v; they conflicted: %v", err, met)
	}
	used := 0.0
	for _, q := range queues {
		used += q.VCPU
	}
	if used != 4 {
		t.Errorf("of 4 vCPUs %g are in use: %+v", used, queues)
	}
}

// settleUntil delivers events until there is one of a type, which it holds back.
func (w *bench) settleUntil(kind string) (kept events.Event) {
	w.t.Helper()
	ctx := context.Background()
	for {
		pending, err := w.store.Outbox(ctx, 1000)
		if err != nil || len(pending) == 0 {
			w.t.Fatalf("there is no %s: %v", kind, err)
		}
		for _, p := range pending {
			e, err := events.Parse(p.Body)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := w.store.Published(ctx, p.ID); err != nil {
				w.t.Fatal(err)
			}
			if e.Type() == kind {
				return e
			}
			for _, fn := range events.Routes()[e.Type()] {
				_ = w.b.Functions.Handle(ctx, fn, []events.Event{e})
			}
		}
	}
}

// A session is about to admit a task when the job is cancelled and ends. The task is not admitted any more: a finished
// job has no new attempts.
func TestNothingIsAdmittedAfterTheEndOfItsJob(t *testing.T) {
	w := newBench(t)
	meet := &between{Store: w.store}
	ports := w.b.Ports()
	ports.Store = meet
	slow := broker.New(config.Default(), ports)
	ports.Store, ports.Paused = w.store, func() string { return "only the slow broker has sessions" }
	w.b = broker.New(config.Default(), ports)
	spec, err := read.Job("j.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\ntasks: {t: {run: x}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: "once"})
	if err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	met := false
	meet.other = func() {
		met = true
		if err := w.b.Users.Cancel(t.Context(), job.ID, "not wanted"); err != nil {
			t.Fatal(err)
		}
		w.deliverAll()
		if view, err := w.b.Views.JobView(t.Context(), job.ID); err != nil || view.State != apitypes.JobCancelled {
			t.Fatalf("the job is %s, %v", view.State, err)
		}
	}
	look := events.New("look", "test", w.now, events.QueueResumed{Queue: job.Queue})
	if errs := slow.Functions.Handle(t.Context(), events.FnSchedule, []events.Event{look}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if !met {
		t.Fatal("the session admitted nothing")
	}
	attempts, _, err := w.store.Query(t.Context(), record.JobPart(job.ID), "attempt#", store.Page{})
	if err != nil || len(attempts) > 0 {
		t.Errorf("%d attempts, %v", len(attempts), err)
	}
}
