package local_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

var start = time.Date(2017, 4, 1, 12, 0, 0, 0, time.UTC)

func work(attempts int) bus.QueueConfig {
	return bus.QueueConfig{Name: "work", Visibility: 30 * time.Second, MaxAttempts: attempts, BackoffMin: time.Minute, BackoffMax: time.Hour}
}

// restarts is a bus in a file. Its clock stands still.
type restarts struct {
	*testing.T
	*local.Bus
	path  string
	clock *bustest.Clock
}

func newRestarts(t *testing.T, queues ...bus.QueueConfig) *restarts {
	r := &restarts{T: t, path: filepath.Join(t.TempDir(), "bus.db"), clock: bustest.NewClock(start)}
	r.open(queues...)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *restarts) open(queues ...bus.QueueConfig) {
	r.Helper()
	route := bus.Route{}
	for _, q := range queues {
		route[q.Name] = []string{q.Name}
	}
	b, err := local.Open(r.path, bolt.Options{NoSync: true}, local.Config{Queues: queues, Route: route, Clock: r.clock})
	if err != nil {
		r.Fatal(err)
	}
	r.Bus = b
}

func (r *restarts) reopen(queues ...bus.QueueConfig) {
	r.Helper()
	if err := r.Close(); err != nil {
		r.Fatal(err)
	}
	r.open(queues...)
}

func (r *restarts) publish(typ string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		if err := r.Publish(r.Context(), bus.Message{ID: id, Type: typ, Body: []byte(`{}`)}); err != nil {
			r.Fatal(err)
		}
	}
}

// receive returns the visible messages as "ID/attempt", sorted, and their receipts by ID.
func (r *restarts) receive(queue string) (got []string, receipts map[string]string) {
	r.Helper()
	deliveries, err := r.Receive(r.Context(), queue, 100, 0)
	if err != nil {
		r.Fatal(err)
	}
	receipts = make(map[string]string)
	for _, d := range deliveries {
		got = append(got, fmt.Sprintf("%s/%d", d.ID, d.Attempt))
		receipts[d.ID] = d.Receipt
	}
	slices.Sort(got)
	return got, receipts
}

func (r *restarts) want(queue string, want ...string) map[string]string {
	r.Helper()
	got, receipts := r.receive(queue)
	if !slices.Equal(got, want) {
		r.Fatalf("received %q, want %q", got, want)
	}
	return receipts
}

func (r *restarts) dead() []bus.DeadLetter {
	r.Helper()
	letters, err := r.DeadLetters(r.Context(), "", 100)
	if err != nil {
		r.Fatal(err)
	}
	return letters
}

func TestInFlightMessagesAreVisibleAfterRestart(t *testing.T) {
	r := newRestarts(t, work(3))
	r.publish("work", "a", "b")
	r.want("work", "a/1", "b/1")
	r.reopen(work(3))
	receipts := r.want("work", "a/2", "b/2") // the delivery before the restart counts
	if err := r.Ack(t.Context(), "work", receipts["a"]); err != nil {
		t.Fatal(err)
	}
	r.reopen(work(3))
	r.want("work", "b/3")
}

func TestCrashDuringLastAttemptMakesDeadLetter(t *testing.T) {
	r := newRestarts(t, work(2))
	r.publish("work", "a", "b")
	r.want("work", "a/1", "b/1")
	r.reopen(work(2))
	b := r.want("work", "a/2", "b/2")["b"]
	if err := r.Ack(t.Context(), "work", b); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Second)
	r.reopen(work(2))
	r.want("work")
	letters := r.dead()
	if len(letters) != 1 || letters[0].ID != "a" || letters[0].Attempts != 2 || !strings.Contains(letters[0].Reason, "process ended during delivery 2") ||
		!letters[0].At.Equal(r.clock.Now()) {
		t.Fatalf("dead letters %+v", letters)
	}
	if n, err := r.Redrive(t.Context(), "work"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.want("work", "a/1")
}

func TestBackoffAndDelaySurviveRestart(t *testing.T) {
	r := newRestarts(t, work(3))
	r.publish("work", "failed")
	receipt := r.want("work", "failed/1")["failed"]
	if err := r.Nack(t.Context(), "work", receipt, "not yet"); err != nil {
		t.Fatal(err)
	}
	if err := r.Publish(t.Context(), bus.Message{ID: "delayed", Type: "work", NotBefore: start.Add(2 * time.Minute)}); err != nil {
		t.Fatal(err)
	}
	r.reopen(work(3))
	r.want("work")
	if err := r.Ack(t.Context(), "work", receipt); err == nil {
		t.Error("a receipt that was answered before the restart is valid again")
	}
	r.clock.Advance(time.Minute)
	r.want("work", "failed/2")
	r.clock.Advance(time.Minute)
	r.want("work", "delayed/1", "failed/3")
}

func TestRemovedQueueLeavesDeadLetters(t *testing.T) {
	old, now := work(3), work(3)
	old.Name = "old"
	r := newRestarts(t, old, now)
	r.publish("old", "a", "b")
	r.publish("work", "c")
	r.reopen(now)
	letters := r.dead()
	if len(letters) != 2 || letters[0].Queue != "old" || !strings.Contains(letters[0].Reason, `"old" is not configured`) {
		t.Fatalf("dead letters %+v", letters)
	}
	r.want("work", "c/1")
	if n, err := r.Redrive(t.Context(), ""); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	r.reopen(old, now)
	if n, err := r.Redrive(t.Context(), ""); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	r.want("old", "a/1", "b/1")
}

// TestRelayRoundWaitsForDiskOnce: the store and the bus are in one file. A round of the relay must sync the file only
// once.
func TestRelayRoundWaitsForDiskOnce(t *testing.T) {
	f, err := bolt.OpenFile(filepath.Join(t.TempDir(), "shared.db"), bolt.Options{NoSync: true, DeferDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bolt.New(f)
	b, err := local.New(f, local.Config{Queues: []bus.QueueConfig{work(3)}, Route: bus.Route{"work": {"work"}}})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 5
	groups := f.Stats().Groups
	for i := range rounds {
		id := fmt.Sprint(i)
		// first sync
		if err := s.Commit(t.Context(), store.Tx{Events: []store.Event{{ID: id, Body: []byte(`{}`)}}}); err != nil {
			t.Fatal(err)
		}
		events, err := s.Outbox(t.Context(), 10)
		if err != nil || len(events) != 1 || events[0].ID != id {
			t.Fatalf("Outbox = %v, %v, want %s", events, err, id)
		}
		// second sync
		if err := b.Publish(t.Context(), bus.Message{ID: id, Type: "work", Body: events[0].Body}); err != nil {
			t.Fatal(err)
		}
		if err := s.Published(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		d, err := b.Receive(t.Context(), "work", 10, 0)
		if err != nil || len(d) != 1 || d[0].ID != id {
			t.Fatalf("Receive = %v, %v, want %s", d, err, id)
		}
		if err := b.Ack(t.Context(), "work", d[0].Receipt); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.Stats().Groups - groups; n != 2*rounds {
		t.Errorf("%d waits for the disk in %d rounds, want one for each commit and one for each publishing", n, rounds)
	}
}

func TestLongQueueUsesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const messages, batch = longQueue, 1000
	path := filepath.Join(t.TempDir(), "bus.db")
	config := local.Config{Queues: []bus.QueueConfig{work(3)}, Route: bus.Route{"work": {"work"}}}
	b, err := local.Open(path, bolt.Options{NoSync: true}, config)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1024)
	for i := range messages / batch {
		var m []bus.Message
		for j := range batch {
			m = append(m, bus.Message{ID: fmt.Sprint(i, "/", j), Type: "work", Group: "job", Body: body})
		}
		if err := b.Publish(t.Context(), m...); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 150 << 20
	if used := heap(); used > limit {
		t.Errorf("%d messages take %d MB of memory", messages, used>>20)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = local.Open(path, bolt.Options{NoSync: true}, config); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if used := heap(); used > limit/4 {
		t.Errorf("%d messages take %d MB of memory after a restart", messages, used>>20)
	}
	if n, err := b.Depth(t.Context(), "work"); n != messages || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
	runtime.KeepAlive(b)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools keep memory for one more cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
