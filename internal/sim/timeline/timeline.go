package timeline

import (
	"fmt"
	"io"
	"time"
)

var beginning = time.Date(2026, 9, 30, 0, 0, 0, 0, time.UTC)

// Beginning is when every history begins.
func Beginning() time.Time { return beginning }

// Timeline is what happens when: the clock, what is yet to happen, and what has.
type Timeline struct {
	Seed    uint64
	Now     time.Time
	Steps   int
	timers  timers
	serial  uint64
	History *history
	// counts are what went wrong, by kind, and violation is what ended the history.
	Counts    map[string]int
	Violation *Violation
}

// New makes one on which nothing has happened yet: the last so many lines of its history are kept, and all are
// written where there is a writer.
func New(seed uint64, keep int, w io.Writer) *Timeline {
	return &Timeline{Seed: seed, Now: Beginning(), History: newHistory(keep, w), Counts: map[string]int{}}
}

// At has f called at a moment, or next if that has passed.
func (l *Timeline) At(t time.Time, f func()) {
	if t.Before(l.Now) {
		t = l.Now
	}
	l.serial++
	l.timers.add(timer{at: t.Sub(beginning), serial: l.serial, f: f})
}

// After has f called when a time has passed.
func (l *Timeline) After(d time.Duration, f func()) { l.At(l.Now.Add(d), f) }

// Step lets the next thing happen. It is false when there is none, or the world is over.
func (l *Timeline) Step() bool {
	if l.Violation != nil || len(l.timers) == 0 {
		return false
	}
	t := l.timers.next()
	l.Now = beginning.Add(t.at)
	l.Steps++
	t.f()
	return l.Violation == nil
}

// Until lets things happen up to a moment, or until done says so.
func (l *Timeline) Until(t time.Time, done func() bool) {
	for len(l.timers) > 0 && l.timers[0].at <= t.Sub(beginning) {
		if !l.Step() || done != nil && done() {
			return
		}
	}
	if l.Violation == nil && l.Now.Before(t) && (done == nil || !done()) {
		l.Now = t
	}
}

// Since is how long ago the history began.
func (l *Timeline) Since() time.Duration { return l.Now.Sub(beginning) }

// Say adds to the history, up to the violation that ends it.
func (l *Timeline) Say(who, what, detail string) {
	if l.Violation == nil {
		l.History.add(Entry{step: l.Steps, At: l.Since(), Who: who, What: what, Detail: detail})
	}
}

// Count notes a fault.
func (l *Timeline) Count(fault string) { l.Counts[fault]++ }

// Violate ends the world: an invariant does not hold. The first one counts.
func (l *Timeline) Violate(invariant, detail string) {
	if l.Violation != nil {
		return
	}
	l.Say("INVARIANT", invariant, detail)
	l.Violation = &Violation{Seed: l.Seed, Step: l.Steps, At: l.Since(), Invariant: invariant, Detail: detail}
}

// Violatef is Violate with a format.
func (l *Timeline) Violatef(invariant, format string, args ...any) {
	l.Violate(invariant, fmt.Sprintf(format, args...))
}

// Violation is an invariant that did not hold.
type Violation struct {
	Seed      uint64        `json:"seed"`
	Step      int           `json:"step"`
	At        time.Duration `json:"at"` // virtual nanoseconds since the beginning
	Invariant string        `json:"invariant"`
	Detail    string        `json:"detail"`
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, step %d, %v: %s: %s", v.Seed, v.Step, v.At.Round(time.Millisecond),
		v.Invariant, v.Detail)
}
