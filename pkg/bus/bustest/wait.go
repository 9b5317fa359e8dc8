package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var waitTests = map[string]func(*testing.T, *fixture){
	"Receive returns none when its wait ends":               testWaitOver,
	"Receive returns at once what is visible":               testNoWait,
	"Receive wakes on Publish":                              testWakePublish,
	"every waiting receiver is served":                      testWakeAll,
	"Receive wakes when a delay ends":                       testWakeDelay,
	"Receive wakes when a back-off ends":                    testWakeBackoff,
	"Receive wakes when a visibility time-out ends":         testWakeVisibility,
	"Receive wakes on Redrive":                              testWakeRedrive,
	"Receive wakes when another receiver returns a message": testWakeNacked,
	"Receive wakes when another receiver does not answer":   testWakeSilent,
	"Receive ends with its context":                         testWakeCancel,
	"Receive ends with Close":                               testWakeClose,
}

type result struct {
	deliveries []bus.Delivery
	err        error
}

// waiter starts the n'th receive that finds no message and waits.
func (f *fixture) waiter(ctx context.Context, n, limit int, wait time.Duration) <-chan result {
	f.Helper()
	done := make(chan result, 1)
	go func() {
		d, err := f.Receive(ctx, workQueue, limit, wait)
		done <- result{d, err}
	}()
	waits := make(chan struct{})
	go func() {
		f.clock.AwaitTimers(n)
		close(waits)
	}()
	select {
	case <-waits:
	case r := <-done:
		f.Fatalf("Receive = %s, %v, but it should wait", showAll(r.deliveries), r.err)
	}
	return done
}

func (f *fixture) wantResult(done <-chan result, id string, attempt int) bus.Delivery {
	f.Helper()
	r := <-done
	if r.err != nil || len(r.deliveries) != 1 || r.deliveries[0].ID != id || r.deliveries[0].Attempt != attempt {
		f.Fatalf("Receive = %s, %v, want attempt %d of %s", showAll(r.deliveries), r.err, attempt, id)
	}
	return r.deliveries[0]
}

func testWaitOver(_ *testing.T, f *fixture) {
	done := f.waiter(f.Context(), 1, 10, time.Minute)
	f.clock.Advance(time.Minute - 1)
	select {
	case r := <-done:
		f.Fatalf("Receive = %s, %v before its wait ended", showAll(r.deliveries), r.err)
	default:
	}
	f.clock.Advance(1)
	if r := <-done; r.err != nil || len(r.deliveries) != 0 {
		f.Fatalf("Receive = %s, %v, want none", showAll(r.deliveries), r.err)
	}
	if d, err := f.Receive(f.Context(), workQueue, 1, -time.Second); err != nil || len(d) != 0 {
		f.Errorf("Receive with a negative wait = %s, %v", showAll(d), err)
	}
}

func testNoWait(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	d, err := f.Receive(f.Context(), workQueue, 10, time.Hour) // the clock stands still, so waiting would never end
	if err != nil || len(d) != 1 {
		f.Errorf("Receive = %s, %v", showAll(d), err)
	}
}

func testWakePublish(_ *testing.T, f *fixture) {
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.publish(auditType, "not for it")
	f.publish(workType, "a")
	f.wantResult(done, "a", 1)
}

func testWakeAll(_ *testing.T, f *fixture) {
	var waiting []<-chan result
	var messages []bus.Message
	for i := range workers {
		waiting = append(waiting, f.waiter(f.Context(), i+1, 1, time.Hour))
		messages = append(messages, message(fmt.Sprintf("%02d", i), workType))
	}
	f.send(messages...)
	var served []string
	for _, done := range waiting {
		r := <-done
		if r.err != nil || len(r.deliveries) != 1 {
			f.Fatalf("Receive = %s, %v, want one message", showAll(r.deliveries), r.err)
		}
		served = append(served, r.deliveries[0].ID)
	}
	slices.Sort(served)
	for i, m := range messages {
		if served[i] != m.ID {
			f.Fatalf("served %q", served)
		}
	}
}

func testWakeDelay(_ *testing.T, f *fixture) {
	m := message("a", workType)
	m.NotBefore = f.clock.Now().Add(time.Minute)
	f.send(m)
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.clock.Advance(time.Minute)
	f.wantResult(done, "a", 1)

	waiting := f.waiter(f.Context(), 1, 10, time.Hour) // the same, but the message comes later
	m.ID, m.NotBefore = "b", f.clock.Now().Add(time.Second)
	f.send(m)
	f.clock.AwaitDue(m.NotBefore)
	f.clock.Advance(time.Second)
	f.wantResult(waiting, "b", 1)
}

func testWakeBackoff(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	d := f.one(workQueue, "a", 1)
	f.nack(workQueue, d.Receipt, "again")
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.clock.Advance(backoffMin)
	f.wantResult(done, "a", 2)
}

func testWakeVisibility(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	f.one(workQueue, "a", 1)
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.clock.Advance(visibility)
	f.wantResult(done, "a", 2)
}

// testWakeNacked starts to receive while the message is hidden. Nack then makes it visible earlier
// than its time-out.
func testWakeNacked(_ *testing.T, f *fixture) {
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.publish(auditType, "a")
	f.publish(workType, "b")
	first := f.wantResult(done, "b", 1)
	done = f.waiter(f.Context(), 1, 10, time.Hour) // until the time-out of b
	f.nack(workQueue, first.Receipt, "again")
	f.clock.AwaitDue(f.clock.Now().Add(backoffMin))
	f.clock.Advance(backoffMin)
	f.wantResult(done, "b", 2)
}

// testWakeSilent runs two receivers that wait for the same message. One gets it and does not
// answer. The other gets it after the time-out.
func testWakeSilent(_ *testing.T, f *fixture) {
	m := message("a", workType)
	m.NotBefore = f.clock.Now().Add(time.Minute)
	f.send(m)
	one := f.waiter(f.Context(), 1, 10, time.Hour)
	two := f.waiter(f.Context(), 2, 10, time.Hour)
	f.clock.Advance(time.Minute)
	var silent result
	other := two
	select {
	case silent = <-one:
	case silent = <-two:
		other = one
	}
	if silent.err != nil || len(silent.deliveries) != 1 {
		f.Fatalf("Receive = %s, %v, want the message", showAll(silent.deliveries), silent.err)
	}
	f.clock.AwaitDue(f.clock.Now().Add(visibility))
	f.clock.Advance(visibility)
	f.wantResult(other, "a", 2)
}

func testWakeRedrive(_ *testing.T, f *fixture) {
	f.kill(workType, workQueue, "a")
	done := f.waiter(f.Context(), 1, 10, time.Hour)
	f.redrive(1, workQueue)
	f.wantResult(done, "a", 1)
}

func testWakeCancel(_ *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(f.Context())
	done := f.waiter(ctx, 1, 10, time.Hour)
	cancel()
	if r := <-done; !errors.Is(r.err, context.Canceled) || len(r.deliveries) != 0 {
		f.Errorf("Receive = %s, %v, want it cancelled", showAll(r.deliveries), r.err)
	}
}

func testWakeClose(_ *testing.T, f *fixture) {
	one, two := f.waiter(f.Context(), 1, 10, time.Hour), f.waiter(f.Context(), 2, 10, time.Hour)
	if err := f.Close(); err != nil {
		f.Fatalf("Close: %v", err)
	}
	for _, done := range []<-chan result{one, two} {
		if r := <-done; !errors.Is(r.err, bus.ErrClosed) {
			f.Errorf("Receive = %s, %v, want ErrClosed", showAll(r.deliveries), r.err)
		}
	}
}
