package account

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Trace records the work of the functions over time, to explain delays later. A nil Trace records nothing.
type Trace struct {
	deployment string // prefix of its functions' names

	mu    sync.Mutex
	spans []Span
}

// SpanKind is the kind of a span.
type SpanKind int

// The kinds of span, the deepest last: a function that waits for an emulated service counts as that service.
const (
	InFunction SpanKind = iota // a function works
	Starting                   // one of its processes starts
	InService                  // it waits for a call to the emulated AWS
)

// Span is an activity with its duration.
type Span struct {
	Kind       SpanKind
	Function   string // without the deployment's name
	Service    string // the called service
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

// Split divides the time from begin to end among the given functions. Each moment counts once, for the deepest span at
// that time. If none of the functions is working, it counts as the way to the next one that starts. Split forgets
// recorded spans that end before begin.
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

// spentOn returns the name of the activity at a time.
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
			s.Kind == deepest.Kind && s.Begin.After(deepest.Begin)): // the callee, if one waits for the other
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
