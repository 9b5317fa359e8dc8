package sim

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// quiet makes a world in which nothing fails and nobody wants anything.
func quiet(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, Options{Keep: 10, steady: true}, Faults{})
	t.Cleanup(w.end)
	return w
}

func TestAProcessIsOvertakenWhileItWaits(t *testing.T) {
	w := quiet(t)
	var order []string
	w.start(w.hosts[0], "slow", func(context.Context, *broker.Broker) {
		order = append(order, "slow begins")
		w.running.wait(time.Minute)
		order = append(order, "slow ends")
	}, nil)
	w.after(time.Second, func() {
		w.start(w.hosts[1], "quick", func(context.Context, *broker.Broker) { order = append(order, "quick") }, nil)
	})
	for w.step() {
	}
	if got := strings.Join(order, ", "); got != "slow begins, quick, slow ends" {
		t.Error(got)
	}
	if w.since() != time.Minute {
		t.Errorf("it took %v", w.since())
	}
}

func TestACrashEndsTheProcessesOfItsHostAlone(t *testing.T) {
	w := quiet(t)
	ended := map[string]bool{}
	for i, name := range []string{"a", "b"} {
		w.start(w.hosts[i], name, func(context.Context, *broker.Broker) { w.running.wait(time.Minute) }, func(crashed bool) {
			ended[name] = crashed
		})
	}
	w.hosts[0].crash(nil)
	for w.step() {
	}
	if crashed, ok := ended["a"]; !ok || !crashed {
		t.Error("the process on the host that crashed went on")
	}
	if crashed, ok := ended["b"]; !ok || crashed {
		t.Error("the process on the other host did not")
	}
	if !w.hosts[0].up {
		t.Error("the host did not come back")
	}
}

func TestAPanicOfAHandlerIsAViolation(t *testing.T) {
	w := quiet(t)
	w.start(w.hosts[0], "faulty", func(context.Context, *broker.Broker) { panic("index out of range") }, nil)
	if w.violation == nil || w.violation.Invariant != InvPanic || !strings.Contains(w.violation.Detail, "index out of range") {
		t.Errorf("%v", w.violation)
	}
}

func TestAnUnknownOutcomeIsATransactionThatWasApplied(t *testing.T) {
	w := quiet(t)
	w.faults.Unknown = 1
	key := store.Key{Partition: "p", Sort: "s"}
	err := w.store.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Put, Key: key, Expect: store.Absent, Body: []byte("x")}}})
	if !errors.Is(err, errUnknown) {
		t.Errorf("committed with %v", err)
	}
	if got, err := w.store.mem.Get(t.Context(), key); err != nil || len(got) != 1 {
		t.Errorf("it was not applied: %v, %v", got, err)
	}
}

func TestTheBusKeepsItsRules(t *testing.T) {
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
	w.now = w.now.Add(time.Second)
	first := receive()
	if len(first) != 1 || first[0].Attempt != 1 || len(receive()) != 0 {
		t.Fatalf("received %v, then it was not hidden", first)
	}
	w.now = w.now.Add(visibility + time.Second)
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
	w.now = w.now.Add(time.Second)
	again := receive()
	if len(again) != 1 || again[0].Attempt != 1 {
		t.Fatalf("after the redrive: %v", again)
	}
	for range maxAttempts {
		w.now = w.now.Add(visibility + backoffMax)
		receive()
	}
	if dead, _ := w.bus.DeadLetters(ctx, "", 10); len(dead) != 1 {
		t.Errorf("after %d deliveries that nobody answered: %v", maxAttempts, dead)
	}
}

func TestACloudKeepsItsContract(t *testing.T) {
	w := quiet(t)
	c := w.clouds[0]
	offer := catalogue()[0].offer(true, 0.07)
	token, err := seal(claims("job.0.1", 0))
	if err != nil {
		t.Fatal(err)
	}
	spec := cloud.LaunchSpec{Cluster: "job.0.1", Offer: offer, Nodes: 1, Bootstrap: cloud.Bootstrap{Tokens: []string{token}}}
	w.check.state("job").order = []attemptKey{{"job", 0, 1}}
	first, err := c.Launch(t.Context(), spec)
	if err != nil || len(first) != 1 {
		t.Fatalf("launched %v, %v", first, err)
	}
	again, err := c.Launch(t.Context(), spec)
	if err != nil || len(again) != 1 || again[0].ID != first[0].ID {
		t.Errorf("the same name launched %v, %v", again, err)
	}
	w.now = w.now.Add(30 * time.Minute)
	if err := c.Terminate(t.Context(), "job.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Terminate(t.Context(), "nobody's"); err != nil {
		t.Errorf("a cluster that does not exist: %v", err)
	}
	m := c.find("job.0.1").machines[0]
	if got, want := m.bill(), 0.035; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("half an hour at 0.07 costs %v", got)
	}
	if _, err := c.Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("a name that was terminated: %v", err)
	}
	if w.violation != nil {
		t.Error(w.violation)
	}
}

func TestAFrontIsTheSameWhoeverAsksAndWhen(t *testing.T) {
	of := span{Well: time.Hour, Ill: 20 * time.Minute}
	forward, backward := newSky(&world{seed: 3}).front("zone", of), newSky(&world{seed: 3}).front("zone", of)
	var a, b []bool
	const hours = 200
	for i := range hours {
		ill, _ := forward.ill(beginning().Add(time.Duration(i) * time.Hour))
		a = append(a, ill)
	}
	for i := range hours {
		ill, until := backward.ill(beginning().Add(time.Duration(hours-1-i) * time.Hour))
		b = append(b, ill)
		if !until.After(beginning().Add(time.Duration(hours-1-i) * time.Hour)) {
			t.Fatal("a span ended before it was asked about")
		}
	}
	ills := 0
	for i := range hours {
		if a[i] != b[hours-1-i] {
			t.Fatalf("hour %d differs", i)
		}
		if a[i] {
			ills++
		}
	}
	if ills < hours/8 || ills > hours/2 {
		t.Errorf("%d of %d hours are ill, about a quarter should be", ills, hours)
	}
}

const smallTrace = `{"metadata": {"gap_seconds": 60}, "data": [1, 1, 0, 0, 4]}`

func TestATraceSaysWhatCanBeHadAndUntilWhen(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(smallTrace), false)
	if err != nil {
		t.Fatal(err)
	}
	now := beginning()
	for _, c := range []struct {
		at    time.Duration
		nodes int
		has   bool
		until time.Duration
	}{
		{0, 1, true, 2 * time.Minute},
		{90 * time.Second, 1, true, 30 * time.Second},
		{2 * time.Minute, 1, false, 2 * time.Minute},
		{0, 2, false, 4 * time.Minute},
		{4 * time.Minute, 4, true, time.Minute},
		{4 * time.Minute, 9, true, time.Minute}, // more than the trace ever saw: as many as it did
		{5 * time.Minute, 1, true, 2 * time.Minute},
	} {
		has, until := trace.capacity(c.at, now, c.nodes)
		if has != c.has || until.Sub(now) != c.until {
			t.Errorf("%d nodes at %v: %v for %v, want %v for %v", c.nodes, c.at, has, until.Sub(now), c.has, c.until)
		}
	}
}

func TestATraceThatIsNoneIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": "hello", "no gap": `{"data":[1]}`, "negative": `{"metadata":{"gap_seconds":60},"data":[1,-1]}`,
		"nothing available": `{"metadata":{"gap_seconds":60},"data":[0,0]}`, "empty": `{"metadata":{"gap_seconds":60},"data":[]}`,
	} {
		if _, err := ReadTrace(strings.NewReader(text), false); !errors.Is(err, ErrTrace) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadTrace(strings.NewReader(smallTrace), true); !errors.Is(err, ErrTrace) {
		t.Errorf("not compressed: %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(smallTrace), false)
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(smallTrace))
	_ = zw.Close()
	f.Add(zipped.Bytes(), true)
	f.Fuzz(func(t *testing.T, body []byte, compressed bool) {
		trace, err := ReadTrace(bytes.NewReader(body), compressed)
		if err != nil {
			if !errors.Is(err, ErrTrace) {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, until := trace.capacity(time.Hour, beginning(), 3); !until.After(beginning()) {
			t.Fatalf("what begins at %v ends at %v", beginning(), until)
		}
	})
}

func TestHistoriesWithRecordedTraces(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/spot-availability/availability/1-node/*/*.json.gz")
	if len(files) == 0 {
		t.Skip("the recorded traces are not there (../shared/data/spot-availability)")
	}
	var traces []*Trace
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := ReadTrace(f, true)
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
