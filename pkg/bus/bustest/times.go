package bustest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var timeTests = map[string]func(*testing.T, *fixture){
	"a delivery without answer is visible after its time-out":       testVisibility,
	"the receipt of an earlier delivery is stale":                   testStaleReceipt,
	"one stale receipt does not block the others":                   testAckMixed,
	"back-off doubles up to its bound":                              testBackoff,
	"the last failed attempt makes a dead letter":                   testDeadByNack,
	"the last attempt without answer makes a dead letter":           testDeadByTimeout,
	"an unanswered message becomes a dead letter without a receive": testDeadUnnoticed,
	"Extend hides for another time-out":                             testExtend,
	"an extended last attempt is not a dead letter":                 testExtendLast,
	"a message is not delivered before its time":                    testNotBefore,
	"a past time is no delay":                                       testNotBeforePast,
	"dead letters of all queues are in order of time":               testDeathOrder,
	"redrive makes visible at once":                                 testRedriveNow,
	"queues follow their own rules":                                 testOwnRules,
}

func testVisibility(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	for attempt := 1; attempt < maxAttempts; attempt++ {
		f.one(workQueue, "a", attempt)
		f.clock.Advance(visibility - 1)
		f.none(workQueue)
		f.clock.Advance(1)
	}
	f.depth(workQueue, 1)
}

func testStaleReceipt(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	first := f.one(workQueue, "a", 1)
	f.clock.Advance(visibility)
	second := f.one(workQueue, "a", 2)
	if first.Receipt == second.Receipt {
		f.Errorf("two deliveries have receipt %q", first.Receipt)
	}
	f.wantStale(workQueue, first.Receipt, true)
	f.none(workQueue) // the stale receipt had no effect
	f.depth(workQueue, 1)
	f.dead("")
	f.ack(workQueue, second.Receipt)
	f.depth(workQueue, 0)
	f.ack(workQueue, first.Receipt) // no error: the message no longer exists
}

func testAckMixed(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	stale := f.one(workQueue, "a", 1)
	f.clock.Advance(visibility)
	f.publish(workType, "b", "c")
	d := f.receiveAll(workQueue)
	if !slices.Equal(ids(d), []string{"a", "b", "c"}) {
		f.Fatalf("received %s", showAll(d))
	}
	err := f.Ack(f.Context(), workQueue, d[1].Receipt, stale.Receipt, d[2].Receipt)
	if !errors.Is(err, bus.ErrStaleReceipt) {
		f.Errorf("Ack = %v, want ErrStaleReceipt", err)
	}
	f.depth(workQueue, 1)
}

func testBackoff(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second} {
		f.nack(workQueue, f.one(workQueue, "a", i+1).Receipt, "not yet")
		f.clock.Advance(wait - 1)
		f.none(workQueue)
		f.depth(workQueue, 1)
		f.clock.Advance(1)
	}
	f.one(workQueue, "a", maxAttempts)
}

func testDeadByNack(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		f.dead("")
		f.nack(workQueue, f.one(workQueue, "a", attempt).Receipt, "reason "+string(rune('0'+attempt)))
		f.clock.Advance(backoffMax)
	}
	f.none(workQueue)
	f.depth(workQueue, 0)
	l := f.dead(workQueue, "a")[0]
	if l.Reason != "reason 5" || l.Attempts != maxAttempts || !l.At.Equal(f.clock.Now().Add(-backoffMax)) {
		f.Errorf("dead letter %+v", l)
	}
}

func testDeadByTimeout(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	var last bus.Delivery
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		last = f.one(workQueue, "a", attempt)
		f.clock.Advance(visibility - 1)
		f.dead("")
		f.clock.Advance(1)
	}
	f.none(workQueue)
	f.depth(workQueue, 0)
	l := f.dead(workQueue, "a")[0]
	if !strings.Contains(l.Reason, visibility.String()) || l.Attempts != maxAttempts || !l.At.Equal(f.clock.Now()) {
		f.Errorf("dead letter %+v", l)
	}
	f.wantStale(workQueue, last.Receipt, false)
}

func testDeadUnnoticed(_ *testing.T, f *fixture) {
	lose := func(id string) {
		f.publish(auditType, id)
		f.one(auditQueue, id, 1)
		f.clock.Advance(2 * visibility)
	}
	lose("listed")
	f.dead("", "listed")
	lose("counted")
	f.depth(auditQueue, 0)
	f.dead(auditQueue, "listed", "counted")
	lose("redriven")
	f.redrive(1, auditQueue, "redriven")
	f.one(auditQueue, "redriven", 1)
}

func testExtend(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	d := f.one(workQueue, "a", 1)
	for range 4 {
		f.clock.Advance(visibility - 1)
		f.extend(workQueue, d.Receipt)
		f.none(workQueue)
	}
	f.clock.Advance(visibility - 1)
	f.none(workQueue)
	f.clock.Advance(1)
	again := f.one(workQueue, "a", 2)
	f.wantStale(workQueue, d.Receipt, true)
	f.extend(workQueue, again.Receipt)
	f.ack(workQueue, again.Receipt)
	f.depth(workQueue, 0)
}

func testExtendLast(_ *testing.T, f *fixture) {
	f.publish(auditType, "a")
	d := f.one(auditQueue, "a", 1)
	f.clock.Advance(2*visibility - 1)
	f.extend(auditQueue, d.Receipt)
	f.clock.Advance(2*visibility - 1)
	f.dead("")
	f.ack(auditQueue, d.Receipt)
	f.clock.Advance(time.Hour)
	f.depth(auditQueue, 0)
	f.dead("")
}

func testNotBefore(_ *testing.T, f *fixture) {
	later := message("later", workType)
	later.NotBefore = f.clock.Now().Add(time.Hour)
	soon := message("soon", workType)
	soon.NotBefore = f.clock.Now().Add(time.Minute)
	never := message("never", workType)
	never.NotBefore = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	f.send(never, later, soon, message("now", workType))
	f.depth(workQueue, 4)
	f.ack(workQueue, f.one(workQueue, "now", 1).Receipt)
	f.clock.Advance(time.Minute - 1)
	f.none(workQueue)
	f.clock.Advance(1)
	d := f.one(workQueue, "soon", 1)
	if !sameMessage(d.Message, soon) {
		f.Errorf("received %+v, want %+v", d.Message, soon)
	}
	f.ack(workQueue, d.Receipt)
	f.clock.Advance(59*time.Minute - 1)
	f.none(workQueue)
	f.clock.Advance(1)
	f.one(workQueue, "later", 1) // its first attempt: a delay does not count
}

func testNotBeforePast(_ *testing.T, f *fixture) {
	past, now := message("past", workType), message("now", workType)
	past.NotBefore, now.NotBefore = f.clock.Now().Add(-time.Hour), f.clock.Now()
	f.send(past, now)
	if d := f.receiveAll(workQueue); !slices.Equal(ids(d), []string{"now", "past"}) {
		f.Errorf("received %s", showAll(d))
	}
}

func testDeathOrder(_ *testing.T, f *fixture) {
	f.publish(auditType, "second") // becomes a dead letter without an answer after 60 s
	f.one(auditQueue, "second", 1)
	f.clock.Advance(visibility)
	f.kill(workType, workQueue, "first")
	f.clock.Advance(2 * visibility)
	f.publish(unknownType, "third")
	f.dead("", "first", "second", "third")
}

func testRedriveNow(_ *testing.T, f *fixture) {
	f.publish(workType, "a")
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		f.nack(workQueue, f.one(workQueue, "a", attempt).Receipt, "no")
		f.clock.Advance(backoffMax)
	}
	f.redrive(1, workQueue)
	f.nack(workQueue, f.one(workQueue, "a", 1).Receipt, "no") // the back-off starts again
	f.clock.Advance(backoffMin)
	f.one(workQueue, "a", 2)
}

func testOwnRules(_ *testing.T, f *fixture) {
	f.publish(bothType, "a")
	f.one(workQueue, "a", 1)
	f.one(auditQueue, "a", 1)
	f.clock.Advance(visibility)
	f.none(auditQueue)
	f.one(workQueue, "a", 2)
	f.clock.Advance(visibility)
	f.none(auditQueue)
	f.one(workQueue, "a", 3)
	f.dead("", "a")
	f.dead(workQueue)
}
