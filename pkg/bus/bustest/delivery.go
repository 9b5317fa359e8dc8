package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var deliveryTests = map[string]func(*testing.T, *fixture){
	"a message is delivered complete":                       testWhole,
	"a delivery is hidden from others":                      testHidden,
	"an acknowledged message is not delivered again":        testAck,
	"acknowledging again is no error":                       testAckAgain,
	"an unknown receipt is stale":                           testForeignReceipt,
	"the answered receipt is stale":                         testAnsweredReceipt,
	"a receipt is valid only in its queue":                  testReceiptOfOtherQueue,
	"a type goes to every queue it routes to":               testFanOut,
	"a type routed to no queue is dropped":                  testDropped,
	"Receive returns at most its limit":                     testLimit,
	"every published message is delivered":                  testEveryMessage,
	"a duplicate ID is delivered at least once":             testSameID,
	"slices are not shared with the caller":                 testIsolation,
	"depth counts hidden messages":                          testDepth,
	"publishing no messages does nothing":                   testPublishNothing,
	"concurrent receivers never hold the same message":      testSideBySide,
	"a message published while others receive is delivered": testPublishWhileReceiving,
}

func testWhole(_ *testing.T, f *fixture) {
	want := bus.Message{ID: "id/1 é", Type: workType, Group: "job/ü 🛳",
		Body: []byte(`{"é":"\u0000🛳","n":[1,2.50,null]}`)}
	bare := bus.Message{ID: "j", Type: workType, Body: []byte("{}")}
	f.send(want, bare)
	got := f.receiveAll(workQueue)
	if len(got) != 2 || !sameMessage(got[0].Message, want) || !sameMessage(got[1].Message, bare) {
		f.Fatalf("received %+v, want %+v and %+v", got, want, bare)
	}
	for _, d := range got {
		if d.Attempt != 1 || d.Receipt == "" {
			f.Errorf("%q: attempt %d, receipt %q", d.ID, d.Attempt, d.Receipt)
		}
	}
	if got[0].Receipt == got[1].Receipt {
		f.Errorf("two deliveries with receipt %q", got[0].Receipt)
	}
}

func testHidden(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	f.one(workQueue, "a", 1)
	f.none(workQueue)
}

func testAck(_ *testing.T, f *fixture) {
	f.publish(workType, "a", "b", "c", "d")
	d := f.receiveAll(workQueue)
	f.ack(workQueue, d[0].Receipt)
	f.ack(workQueue, d[1].Receipt, d[2].Receipt)
	f.ack(workQueue)
	f.depth(workQueue, 1)
	f.clock.Advance(visibility)
	if d := f.receive(workQueue, 10); slices.Contains(ids(d), "a") || slices.Contains(ids(d), "b") ||
		slices.Contains(ids(d), "c") {
		f.Errorf("%s was delivered after it was acknowledged", showAll(d))
	}
	f.dead("")
}

func testAckAgain(_ *testing.T, f *fixture) {
	f.publish(workType, "a", "b")
	d := f.receiveAll(workQueue)
	f.ack(workQueue, d[0].Receipt)
	f.ack(workQueue, d[0].Receipt)
	f.ack(workQueue, d[0].Receipt, d[1].Receipt)
	f.depth(workQueue, 0)
}

// wantStale fails unless every answer with the receipt returns ErrStaleReceipt.
func (f *fixture) wantStale(queue, receipt string, ack bool) {
	f.Helper()
	answers := map[string]error{
		"Nack":   f.Nack(f.Context(), queue, receipt, "too late"),
		"Reject": f.Reject(f.Context(), queue, receipt, "too late"),
		"Extend": f.Extend(f.Context(), queue, receipt),
	}
	if ack {
		answers["Ack"] = f.Ack(f.Context(), queue, receipt)
	}
	for name, err := range answers {
		if !errors.Is(err, bus.ErrStaleReceipt) {
			f.Errorf("%s = %v, want ErrStaleReceipt", name, err)
		}
	}
}

func testForeignReceipt(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	receipt := f.one(workQueue, "a", 1).Receipt
	for _, r := range []string{"", "receipt", "1", "1.", ".1", "1.1.1", "-1.1", "1.-1", receipt + "x", "\x00",
		"zzzzzzzzzzzzzzzzzzzz.1"} {
		f.wantStale(workQueue, r, true)
	}
	f.depth(workQueue, 1)
	f.ack(workQueue, receipt)
}

func testAnsweredReceipt(_ *testing.T, f *fixture) {
	f.publish(workType, "acknowledged")
	acknowledged := f.one(workQueue, "acknowledged", 1).Receipt
	f.ack(workQueue, acknowledged)
	f.publish(workType, "rejected")
	rejected := f.one(workQueue, "rejected", 1).Receipt
	f.reject(workQueue, rejected, "rejected")
	f.publish(workType, "failed")
	failed := f.one(workQueue, "failed", 1).Receipt
	f.nack(workQueue, failed, "not yet")
	for _, r := range []string{acknowledged, rejected} {
		f.wantStale(workQueue, r, false)
	}
	f.wantStale(workQueue, failed, true)
	f.depth(workQueue, 1)
	f.dead(workQueue, "rejected")
}

func testReceiptOfOtherQueue(_ *testing.T, f *fixture) {
	f.publish(bothType, "a")
	work, audit := f.one(workQueue, "a", 1), f.one(auditQueue, "a", 1)
	f.wantStale(workQueue, audit.Receipt, false)
	f.depth(workQueue, 1)
	f.depth(auditQueue, 1)
	f.ack(workQueue, work.Receipt)
	f.ack(auditQueue, audit.Receipt)
}

func testFanOut(_ *testing.T, f *fixture) {
	f.send(message("both", bothType), message("work", workType), message("audit", auditType))
	work, audit := f.receiveAll(workQueue), f.receiveAll(auditQueue)
	if !slices.Equal(ids(work), []string{"both", "work"}) || !slices.Equal(ids(audit), []string{"audit", "both"}) {
		f.Fatalf("work got %q, audit %q", ids(work), ids(audit))
	}
	f.ack(workQueue, work[0].Receipt) // the other queue's copy must stay
	f.depth(workQueue, 1)
	f.depth(auditQueue, 2)
	f.reject(auditQueue, audit[1].Receipt, "x")
	f.depth(workQueue, 1)
	if l := f.dead("", "both"); l[0].Queue != auditQueue {
		f.Errorf("the dead letter is of queue %q", l[0].Queue)
	}
}

func testDropped(_ *testing.T, f *fixture) {
	f.publish(nobodyType, "a")
	f.send(message("b", nobodyType), message("c", workType))
	f.one(workQueue, "c", 1)
	f.depth(auditQueue, 0)
	f.dead("")
}

func testLimit(_ *testing.T, f *fixture) {
	f.publish(workType, "a", "b", "c", "d", "e")
	for _, limit := range []int{0, -1} {
		d, err := f.Receive(f.Context(), workQueue, limit, time.Hour)
		if err != nil || len(d) != 0 {
			f.Errorf("Receive of %d = %s, %v", limit, showAll(d), err)
		}
	}
	seen := ids(f.receive(workQueue, 1))
	for len(seen) < 5 {
		d := f.receive(workQueue, 2)
		if len(d) == 0 {
			break
		}
		seen = append(seen, ids(d)...)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"a", "b", "c", "d", "e"}) {
		f.Errorf("received %q", seen)
	}
}

func testEveryMessage(_ *testing.T, f *fixture) {
	const batches, batch = 20, 25
	want := make(map[string]bool)
	for i := range batches {
		var messages []bus.Message
		for j := range batch {
			m := message(fmt.Sprintf("%d/%d", i, j), workType)
			messages = append(messages, m)
			want[m.ID] = true
		}
		f.send(messages...)
	}
	f.depth(workQueue, batches*batch)
	for len(want) > 0 {
		d := f.receive(workQueue, 10)
		if len(d) == 0 {
			f.Fatalf("%d messages were never delivered", len(want))
		}
		for _, d := range d {
			if string(d.Body) != string(body(d.ID)) || d.Group != "job/"+d.ID {
				f.Errorf("%q was delivered with body %q and group %q", d.ID, d.Body, d.Group)
			}
			delete(want, d.ID)
		}
		f.ack(workQueue, receipts(d)...)
	}
	f.depth(workQueue, 0)
}

func testSameID(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	f.publish(workType, "a")
	d := f.receiveAll(workQueue)
	if len(d) == 0 {
		f.Fatal("no message was delivered")
	}
	f.ack(workQueue, receipts(d)...)
	f.depth(workQueue, 0)
}

func testIsolation(_ *testing.T, f *fixture) {
	dead, live := message("dead", unknownType), message("live", workType)
	f.send(dead, live)
	copy(dead.Body, "XXXX")
	copy(live.Body, "XXXX")
	if d := f.one(workQueue, "live", 1); string(d.Body) != string(body("live")) {
		f.Errorf("the message is %q", d.Body)
	}
	if l := f.dead("", "dead"); string(l[0].Body) != string(body("dead")) {
		f.Errorf("the dead letter is %q", l[0].Body)
	}
}

func testDepth(_ *testing.T, f *fixture) {
	f.depth(workQueue, 0)
	f.publish(workType, "a", "b", "c")
	delayed := message("d", workType)
	delayed.NotBefore = time.Now().Add(time.Hour) // works also without the suite's clock
	f.send(delayed)
	f.depth(workQueue, 4)
	d := f.receive(workQueue, 1)
	f.depth(workQueue, 4)
	f.nack(workQueue, d[0].Receipt, "again")
	f.depth(workQueue, 4)
	f.depth(auditQueue, 0)
}

func testPublishNothing(_ *testing.T, f *fixture) {
	f.send()
	f.depth(workQueue, 0)
	f.dead("")
}

// testSideBySide lets many receivers take and put back messages, and checks that no two receivers have the same
// message at the same time.
func testSideBySide(_ *testing.T, f *fixture) {
	const messages = 300
	for i := range messages {
		f.publish(workType, fmt.Sprint(i))
	}
	var mu sync.Mutex
	held, done := make(map[string]bool), make(map[string]bool)
	take := func(d bus.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		if held[d.ID] || done[d.ID] {
			f.Errorf("%q was delivered while it was held or after it was acknowledged", d.ID)
		}
		held[d.ID] = true
	}
	release := func(ctx context.Context, d bus.Delivery) error {
		mu.Lock()
		delete(held, d.ID)
		done[d.ID] = true
		mu.Unlock()
		return f.Ack(ctx, workQueue, d.Receipt)
	}
	f.inParallel(func(ctx context.Context, _ int) error {
		for {
			d, err := f.Receive(ctx, workQueue, 3, 0)
			if err != nil || len(d) == 0 {
				return err
			}
			for _, d := range d {
				take(d)
			}
			for _, d := range d {
				if err := release(ctx, d); err != nil {
					return err
				}
			}
		}
	})
	if len(done) != messages {
		f.Errorf("%d messages, want %d", len(done), messages)
	}
	f.depth(workQueue, 0)
}

func testPublishWhileReceiving(_ *testing.T, f *fixture) {
	const each = 20
	var mu sync.Mutex
	seen := make(map[string]int)
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == workers/2*each
	}
	f.inParallel(func(ctx context.Context, worker int) error {
		if worker%2 == 0 {
			for i := range each {
				if err := f.Publish(ctx, message(fmt.Sprintf("%d/%d", worker, i), workType)); err != nil {
					return err
				}
			}
			return nil
		}
		for !all() {
			d, err := f.Receive(ctx, workQueue, 2, 0)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, d := range d {
				seen[d.ID]++
			}
			mu.Unlock()
			if err := f.Ack(ctx, workQueue, receipts(d)...); err != nil {
				return err
			}
		}
		return nil
	})
	f.depth(workQueue, 0)
}

const workers = 16

// inParallel runs work in all goroutines of the suite and reports their errors.
func (f *fixture) inParallel(work func(ctx context.Context, worker int) error) {
	f.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			if err := work(f.Context(), w); err != nil {
				f.Errorf("worker %d: %v", w, err)
			}
		})
	}
	wg.Wait()
}
