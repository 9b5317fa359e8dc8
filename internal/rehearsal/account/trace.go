package account

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Trace notes what the functions did when, to tell afterwards what a wait was spent on. A nil one notes nothing.
type Trace struct {
	deployment string // what the names of its functions begin with

	mu    sync.Mutex
	spans []Span
}

// SpanKind says what went on.
type SpanKind int

// The kinds of span, the deepest last: while a function waits for an emulated service, that is what is waited for.
const (
	InFunction SpanKind = iota // a function worked
	Starting                   // a process of it was started
	InService                  // a call of it was with the emulated AWS
)

// Span is something that went on for a while.
type Span struct {
	Kind       SpanKind
	Function   string // without the deployment's name
	Service    string // that was called
	Begin, End time.Time
}

func (t *Trace) add(s Span) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Function = strings.TrimPrefix(s.Function, t.deployment+"-")
	t.spans = append(t.spans, s)
}

// Split says what the time from begin to end was spent on, by the functions that are followed: each moment counts once,
// for the deepest of what went on then. A moment at which none of them was at work counts as the way to the one that
// begins next. Noted spans that end before begin are forgotten.
func (t *Trace) Split(begin, end time.Time, follow []string) map[string]time.Duration {
	t.mu.Lock()
	t.spans = slices.DeleteFunc(t.spans, func(s Span) bool { return s.End.Before(begin) })
	spans := slices.DeleteFunc(slices.Clone(t.spans), func(s Span) bool {
		return !s.Begin.Before(end) || !slices.Contains(follow, s.Function)
	})
	t.mu.Unlock()
	edges := []time.Time{begin, end}
	for _, s := range spans {
		for _, at := range []time.Time{s.Begin, s.End} {
			if at.After(begin) && at.Before(end) {
				edges = append(edges, at)
			}
		}
	}
	slices.SortFunc(edges, time.Time.Compare)
	out := map[string]time.Duration{}
	for i, from := range edges[:len(edges)-1] {
		if d := edges[i+1].Sub(from); d > 0 {
			out[spentOn(spans, from)] += d
		}
	}
	return out
}

// spentOn names what went on at a moment.
func spentOn(spans []Span, at time.Time) string {
	var deepest, next *Span
	for i := range spans {
		s := &spans[i]
		switch {
		case s.Begin.After(at):
			if next == nil || s.Begin.Before(next.Begin) {
				next = s
			}
		case s.End.After(at) && (deepest == nil || s.Kind > deepest.Kind ||
			s.Kind == deepest.Kind && s.Begin.After(deepest.Begin)): // of two that wait for each other, the callee
			deepest = s
		}
	}
	switch {
	case deepest == nil && next == nil:
		return "after the last function"
	case deepest == nil:
		return "on the way to " + next.Function
	case deepest.Kind == InService:
		return "emulated " + deepest.Service
	case deepest.Kind == Starting:
		return "start of a process"
	default:
		return "in " + deepest.Function
	}
}
