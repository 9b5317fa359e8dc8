package bustest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var deadTests = map[string]func(*testing.T, *fixture){
	"a type without a route is a dead letter without a queue": testUnrouted,
	"a rejected message is a dead letter at once":             testReject,
	"dead letters are listed by queue and limit":              testListDead,
	"redrive of a queue restores its letters":                 testRedriveQueue,
	"redrive of IDs restores those letters":                   testRedriveIDs,
	"redrive of everything reaches every queue":               testRedriveAll,
	"redrive resets the attempts":                             testRedriveForgets,
	"a message without a route stays dead":                    testRedriveUnrouted,
	"two redrives at once restore a letter once":              testRedriveTwice,
	"redrive restores many letters":                           testRedriveMany,
	"a long reason is cut":                                    testLongReason,
}

// kill publishes messages to a queue and rejects them, in order.
func (f *fixture) kill(typ, queue string, names ...string) {
	f.Helper()
	for _, id := range names {
		f.publish(typ, id)
		f.reject(queue, f.one(queue, id, 1).Receipt, "reason of "+id)
	}
}

func testUnrouted(_ *testing.T, f *fixture) {
	m := message("a", unknownType)
	f.send(message("good", workType), m, message("nobody", nobodyType))
	l := f.dead("", "a")[0]
	if l.Queue != "" || !strings.Contains(l.Reason, unknownType) || l.Attempts != 0 || l.At.IsZero() ||
		!sameMessage(l.Message, m) {
		f.Errorf("dead letter %+v for message %+v", l, m)
	}
	f.dead(workQueue)
	f.depth(workQueue, 1)
	f.one(workQueue, "good", 1)
}

func testReject(_ *testing.T, f *fixture) {
	m := message("a", workType)
	f.send(m, message("b", workType))
	d := f.receiveAll(workQueue)
	f.reject(workQueue, d[0].Receipt, "cannot be parsed")
	l := f.dead(workQueue, "a")[0]
	if l.Queue != workQueue || l.Reason != "cannot be parsed" || l.Attempts != 1 || l.At.IsZero() ||
		!sameMessage(l.Message, m) {
		f.Errorf("dead letter %+v for message %+v", l, m)
	}
	f.depth(workQueue, 1)
	f.none(workQueue)
}

func testListDead(_ *testing.T, f *fixture) {
	f.dead("")
	f.kill(workType, workQueue, "w1")
	f.clock.Advance(1)
	f.kill(auditType, auditQueue, "a1")
	f.clock.Advance(1)
	f.publish(unknownType, "u1")
	f.clock.Advance(1)
	f.kill(workType, workQueue, "w0")
	f.dead("", "w1", "a1", "u1", "w0")
	f.dead(workQueue, "w1", "w0")
	f.dead(auditQueue, "a1")
	for limit, want := range map[int][]string{-1: {}, 0: {}, 1: {"w1"}, 2: {"w1", "w0"}, 3: {"w1", "w0"}} {
		letters, err := f.DeadLetters(f.Context(), workQueue, limit)
		if err != nil || len(letters) != len(want) {
			f.Fatalf("DeadLetters of %d = %v, %v, want %q", limit, letters, err, want)
		}
		for i, l := range letters {
			if l.ID != want[i] || l.Reason != "reason of "+l.ID {
				f.Errorf("DeadLetters of %d has %+v, want %s", limit, l, want[i])
			}
		}
	}
}

func testRedriveQueue(_ *testing.T, f *fixture) {
	f.redrive(0, workQueue)
	f.kill(workType, workQueue, "a", "b")
	f.kill(auditType, auditQueue, "c")
	f.redrive(2, workQueue)
	f.dead("", "c")
	f.depth(workQueue, 2)
	if d := f.receiveAll(workQueue); !slices.Equal(ids(d), []string{"a", "b"}) ||
		!sameMessage(d[0].Message, message("a", workType)) {
		f.Errorf("redriven: %+v", d)
	}
	f.depth(auditQueue, 0)
	f.redrive(0, workQueue)
}

func testRedriveIDs(_ *testing.T, f *fixture) {
	f.kill(workType, workQueue, "a", "b", "c", "d")
	f.kill(auditType, auditQueue, "b")
	f.redrive(2, workQueue, "d", "unknown", "b")
	f.dead(workQueue, "a", "c")
	f.dead(auditQueue, "b")
	if d := f.receiveAll(workQueue); !slices.Equal(ids(d), []string{"b", "d"}) {
		f.Errorf("redriven: %q", ids(d))
	}
	f.redrive(0, workQueue, "unknown")
	f.redrive(1, "", "b")
	f.one(auditQueue, "b", 1)
}

func testRedriveAll(_ *testing.T, f *fixture) {
	f.kill(workType, workQueue, "a")
	f.kill(bothType, auditQueue, "b")
	f.ack(workQueue, f.one(workQueue, "b", 1).Receipt)
	f.redrive(2, "")
	f.dead("")
	f.one(workQueue, "a", 1)
	f.one(auditQueue, "b", 1) // back to its own queue, not to all queues of its type
}

func testRedriveForgets(_ *testing.T, f *fixture) {
	f.publish(auditType, "a") // one attempt
	for range 3 {
		d := f.one(auditQueue, "a", 1)
		f.nack(auditQueue, d.Receipt, "failed")
		if l := f.dead(auditQueue, "a")[0]; l.Attempts != 1 || l.Reason != "failed" {
			f.Errorf("dead letter %+v", l)
		}
		f.redrive(1, auditQueue)
		f.wantStale(auditQueue, d.Receipt, false)
		f.depth(auditQueue, 1)
	}
}

func testRedriveUnrouted(_ *testing.T, f *fixture) {
	f.publish(unknownType, "a")
	f.redrive(0, "")
	f.redrive(0, "", "a")
	f.dead("", "a")
	f.kill(workType, workQueue, "b")
	f.redrive(1, "")
	f.dead("", "a")
}

func testRedriveTwice(_ *testing.T, f *fixture) {
	f.kill(workType, workQueue, "a", "b", "c")
	counts := make(chan int, workers)
	f.inParallel(func(ctx context.Context, _ int) error {
		n, err := f.Redrive(ctx, workQueue)
		counts <- n
		return err
	})
	close(counts)
	total := 0
	for n := range counts {
		total += n
	}
	if d := f.receiveAll(workQueue); total != 3 || !slices.Equal(ids(d), []string{"a", "b", "c"}) {
		f.Errorf("%d redriven, received %q", total, ids(d))
	}
}

func testRedriveMany(_ *testing.T, f *fixture) {
	const n = 700
	for range n / 10 {
		for range 10 {
			f.publish(workType, "m")
		}
		for _, d := range f.receiveAll(workQueue) {
			f.reject(workQueue, d.Receipt, "x")
		}
	}
	f.depth(workQueue, 0)
	f.redrive(n, workQueue)
	f.depth(workQueue, n)
	f.dead("")
}

func testLongReason(_ *testing.T, f *fixture) {
	for _, unit := range []string{"x", "é", "🛳", "\xff"} {
		f.publish(workType, "a")
		reason := "why: " + strings.Repeat(unit, bus.MaxReasonBytes)
		f.reject(workQueue, f.one(workQueue, "a", 1).Receipt, reason)
		l := f.dead(workQueue, "a")[0]
		if len(l.Reason) > bus.MaxReasonBytes || l.Reason != bus.TrimReason(reason) ||
			!strings.HasPrefix(l.Reason, "why: ") {
			f.Errorf("a reason of %d bytes is stored as %d: %.20q", len(reason), len(l.Reason), l.Reason)
		}
		f.redrive(1, workQueue)
		f.ack(workQueue, f.one(workQueue, "a", 1).Receipt)
	}
}
