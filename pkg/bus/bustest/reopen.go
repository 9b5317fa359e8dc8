package bustest

import (
	"slices"
	"testing"
	"time"
)

func (s *suite) testReopen(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *fixture, func(Setup)){
		"messages without acknowledgement are delivered again": s.testReopenKeeps,
		"a redriven message survives reopening":                testReopenDead,
		"redrive uses a new route":                             testReopenRoute,
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t)
			test(t, f, func(su Setup) {
				t.Helper()
				su.Clock = f.clock
				f.Bus = s.reopen(t, f.Bus, su)
			})
		})
	}
}

func (s *suite) testReopenKeeps(_ *testing.T, f *fixture, reopen func(Setup)) {
	delayed := message("delayed", workType)
	delayed.NotBefore = time.Now().Add(100 * 365 * 24 * time.Hour)
	f.publish(workType, "held", "acknowledged", "failed")
	for _, d := range f.receiveAll(workQueue) {
		switch d.ID {
		case "acknowledged":
			f.ack(workQueue, d.Receipt)
		case "failed":
			f.nack(workQueue, d.Receipt, "again")
		}
	}
	f.publish(workType, "fresh")
	f.send(delayed)
	for range 2 {
		reopen(setup())
		f.depth(workQueue, 4)
	}
	if !s.clocked {
		return
	}
	f.clock.Advance(visibility) // at the latest
	d := f.receiveAll(workQueue)
	if !slices.Equal(ids(d), []string{"failed", "fresh", "held"}) {
		f.Fatalf("received %s", showAll(d))
	}
	for i, attempt := range []int{2, 1, 2} {
		if d[i].Attempt != attempt || !sameMessage(d[i].Message, message(d[i].ID, workType)) {
			f.Errorf("received %+v, want attempt %d", d[i], attempt)
		}
	}
	f.ack(workQueue, receipts(d)...)
	reopen(setup())
	f.depth(workQueue, 1)
}

func testReopenDead(_ *testing.T, f *fixture, reopen func(Setup)) {
	f.kill(workType, workQueue, "a", "b")
	before := f.dead("", "a", "b")
	reopen(setup())
	for i, l := range f.dead("", "a", "b") {
		if b := before[i]; !sameMessage(l.Message, b.Message) || l.Queue != b.Queue || l.Reason != b.Reason ||
			l.Attempts != b.Attempts || !l.At.Equal(b.At) {
			f.Errorf("dead letter %+v was %+v", l, b)
		}
	}
	f.redrive(1, workQueue, "b")
	reopen(setup())
	f.dead("", "a")
	f.one(workQueue, "b", 1)
}

func testReopenRoute(_ *testing.T, f *fixture, reopen func(Setup)) {
	f.publish(unknownType, "a")
	su := setup()
	su.Route[unknownType] = []string{workQueue, auditQueue}
	reopen(su)
	f.redrive(1, "")
	f.dead("")
	f.one(workQueue, "a", 1)
	d := f.one(auditQueue, "a", 1)
	if want := message("a", unknownType); !sameMessage(d.Message, want) {
		f.Errorf("received %+v, want %+v", d.Message, want)
	}
}
