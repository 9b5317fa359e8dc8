package sim

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func claims(cluster string, rank int) wire.Claims {
	return wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster, Rank: rank}
}

// quiet returns a world without faults and jobs.
func quiet(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, Options{Keep: 10, steady: true}, weather.Faults{})
	t.Cleanup(w.end)
	return w
}

func TestProcessesRunWhileOneWaits(t *testing.T) {
	w := quiet(t)
	var order []string
	w.start(w.hosts[0], "slow", func(context.Context, *broker.Broker) {
		order = append(order, "slow begins")
		w.running.wait(time.Minute)
		order = append(order, "slow ends")
	}, nil)
	w.After(time.Second, func() {
		w.start(w.hosts[1], "quick", func(context.Context, *broker.Broker) { order = append(order, "quick") }, nil)
	})
	for w.Step() {
	}
	if got := strings.Join(order, ", "); got != "slow begins, quick, slow ends" {
		t.Error(got)
	}
	if w.Since() != time.Minute {
		t.Errorf("it took %v", w.Since())
	}
}

func TestCrashEndsOnlyProcessesOfItsHost(t *testing.T) {
	w := quiet(t)
	ended := map[string]bool{}
	for i, name := range []string{"a", "b"} {
		w.start(w.hosts[i], name, func(context.Context, *broker.Broker) { w.running.wait(time.Minute) }, func(crashed bool) {
			ended[name] = crashed
		})
	}
	w.hosts[0].crash(nil)
	for w.Step() {
	}
	if crashed, ok := ended["a"]; !ok || !crashed {
		t.Error("the process on the crashed host continued")
	}
	if crashed, ok := ended["b"]; !ok || crashed {
		t.Error("the process on the other host did not continue")
	}
	if !w.hosts[0].up {
		t.Error("the host did not restart")
	}
}

func TestHandlerPanicIsViolation(t *testing.T) {
	w := quiet(t)
	w.start(w.hosts[0], "faulty", func(context.Context, *broker.Broker) { panic("index out of range") }, nil)
	if w.Violation == nil || w.Violation.Invariant != check.InvPanic || !strings.Contains(w.Violation.Detail, "index out of range") {
		t.Errorf("%v", w.Violation)
	}
}

func TestUnknownOutcomeIsApplied(t *testing.T) {
	w := quiet(t)
	w.faults.Unknown = 1
	key := store.Key{Partition: "p", Sort: "s"}
	err := w.store.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Put, Key: key, Expect: store.Absent, Body: []byte("x")}}})
	if !errors.Is(err, weather.ErrUnknown) {
		t.Errorf("committed with %v", err)
	}
	if got, err := w.store.mem.Get(t.Context(), key); err != nil || len(got) != 1 {
		t.Errorf("it was not applied: %v, %v", got, err)
	}
}

func TestBusDeliveryRules(t *testing.T) {
	w := quiet(t)
	ctx := t.Context()
	publish := func(id string) {
		t.Helper()
		if err := w.bus.Publish(ctx, bus.Message{ID: id, Type: "tradewind.dag.submitted.v1", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() []bus.Delivery {
		t.Helper()
		d, err := w.bus.Receive(ctx, "optimize", 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	publish("a")
	w.Now = w.Now.Add(time.Second)
	first := receive()
	if len(first) != 1 || first[0].Attempt != 1 || len(receive()) != 0 {
		t.Fatalf("received %v, then it was not hidden", first)
	}
	w.Now = w.Now.Add(visibility + time.Second)
	second := receive()
	if len(second) != 1 || second[0].Attempt != 2 {
		t.Fatalf("after the visibility time-out: %v", second)
	}
	if err := w.bus.Ack(ctx, "optimize", first[0].Receipt); !errors.Is(err, bus.ErrStaleReceipt) {
		t.Errorf("the first receipt is still good: %v", err)
	}
	if err := w.bus.Reject(ctx, "optimize", second[0].Receipt, "hopeless"); err != nil {
		t.Fatal(err)
	}
	dead, err := w.bus.DeadLetters(ctx, "optimize", 10)
	if err != nil || len(dead) != 1 || dead[0].Reason != "hopeless" {
		t.Fatalf("dead letters %v, %v", dead, err)
	}
	if n, err := w.bus.Redrive(ctx, ""); err != nil || n != 1 {
		t.Fatalf("redriven %d, %v", n, err)
	}
	w.Now = w.Now.Add(time.Second)
	again := receive()
	if len(again) != 1 || again[0].Attempt != 1 {
		t.Fatalf("after the redrive: %v", again)
	}
	for range maxAttempts {
		w.Now = w.Now.Add(visibility + backoffMax)
		receive()
	}
	if dead, _ := w.bus.DeadLetters(ctx, "", 10); len(dead) != 1 {
		t.Errorf("after %d unanswered deliveries: %v", maxAttempts, dead)
	}
}

func TestCloudContract(t *testing.T) {
	w := quiet(t)
	c := w.clouds[0]
	offer := weather.Catalogue()[0].Offer(true, 0.07)
	token, err := seal(claims("job.0.1", 0))
	if err != nil {
		t.Fatal(err)
	}
	spec := cloud.LaunchSpec{Cluster: "job.0.1", Offer: offer, Nodes: 1, Bootstrap: cloud.Bootstrap{Tokens: []string{token}}}
	write := func(sort string, record any) store.Write {
		body, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return store.Write{Op: store.Put, Key: store.Key{Partition: "job#job", Sort: sort}, Body: body}
	}
	w.check.Committed(store.Tx{Writes: []store.Write{
		write("attempt#0#1", apitypes.Attempt{Job: "job", Number: 1}), write("ledger", record.Ledger{Outstanding: 1}),
	}})
	first, err := c.Launch(t.Context(), spec)
	if err != nil || len(first) != 1 {
		t.Fatalf("launched %v, %v", first, err)
	}
	again, err := c.Launch(t.Context(), spec)
	if err != nil || len(again) != 1 || again[0].ID != first[0].ID {
		t.Errorf("a second launch of the same name returned %v, %v", again, err)
	}
	w.Now = w.Now.Add(30 * time.Minute)
	if err := c.Terminate(t.Context(), "job.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Terminate(t.Context(), "nobody's"); err != nil {
		t.Errorf("terminating a missing cluster: %v", err)
	}
	if got, want := w.check.Bill(w.check.Jobs["job"]), 0.035; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("half an hour at 0.07 costs %v", got)
	}
	if _, err := c.Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("launching a terminated name: %v", err)
	}
	if w.Violation != nil {
		t.Error(w.Violation)
	}
}

func TestHistoriesWithRecordedTraces(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/spot-availability/availability/1-node/*/*.json.gz")
	if len(files) == 0 {
		t.Skip("the recorded traces are missing (../shared/data/spot-availability)")
	}
	var traces []*weather.Trace
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := weather.ReadTrace(f, true)
		_ = f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		traces = append(traces, trace)
	}
	report, err := Chaos(t.Context(), 1000, 1008, ChaosOptions{Options: Options{Traces: traces}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("%v", &v.Violation)
	}
	if report.Faults["no capacity"] == 0 || report.Faults["spot machine taken"] == 0 {
		t.Errorf("nothing was scarce: %v", report.Faults)
	}
}
