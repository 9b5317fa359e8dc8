package timeline

import (
	"fmt"
	"io"
	"time"
)

var beginning = time.Date(2026, 9, 30, 0, 0, 0, 0, time.UTC)

// Beginning is the time at which every history begins.
func Beginning() time.Time { return beginning }

// Timeline has the clock, future events and the history.
type Timeline struct {
	Seed    uint64
	Now     time.Time
	Steps   int
	timers  timers
	serial  uint64
	History *history
	// Counts are the faults by kind, and Violation is the violation that ended the history.
	Counts    map[string]int
	Violation *Violation
}

// New returns an empty timeline. It keeps the last keep lines of its history, and writes all to w if that is not nil.
func New(seed uint64, keep int, w io.Writer) *Timeline {
	return &Timeline{Seed: seed, Now: Beginning(), History: newHistory(keep, w), Counts: map[string]int{}}
}

// At plans a call of f at a time, or as the next step if that time has passed.
func (l *Timeline) At(t time.Time, f func()) {
	if t.Before(l.Now) {
		t = l.Now
	}
	l.serial++
	l.timers.add(timer{at: t.Sub(beginning), serial: l.serial, f: f})
}

// After plans a call of f after a duration.
func (l *Timeline) After(d time.Duration, f func()) { l.At(l.Now.Add(d), f) }

// Step runs the next event. It returns false if there is none, or the world has ended.
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

// Until runs events up to a time, or until done returns true.
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

// Since returns the time since the beginning.
func (l *Timeline) Since() time.Duration { return l.Now.Sub(beginning) }

// Say adds a line to the history, unless a violation has ended it.
func (l *Timeline) Say(who, what, detail string) {
	if l.Violation == nil {
		l.History.add(Entry{step: l.Steps, At: l.Since(), Who: who, What: what, Detail: detail})
	}
}

// Count counts a fault.
func (l *Timeline) Count(fault string) { l.Counts[fault]++ }

// Violate ends the world because an invariant does not hold. Only the first call counts.
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
