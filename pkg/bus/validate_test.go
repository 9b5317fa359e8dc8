package bus_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	for _, c := range []struct {
		least, most time.Duration
		want        []time.Duration // for attempts 1, 2, …
	}{
		{time.Second, 8 * time.Second, []time.Duration{1e9, 2e9, 4e9, 8e9, 8e9, 8e9}},
		{time.Second, 5 * time.Second, []time.Duration{1e9, 2e9, 4e9, 5e9, 5e9}},
		{time.Second, time.Second, []time.Duration{1e9, 1e9}},
		{0, time.Hour, []time.Duration{0, 0, 0}},
		{3, 5, []time.Duration{3, 5, 5}},
		{math.MaxInt64 / 2, math.MaxInt64, []time.Duration{math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}},
	} {
		q := bus.QueueConfig{BackoffMin: c.least, BackoffMax: c.most}
		for i, want := range c.want {
			if got := q.Backoff(i + 1); got != want {
				t.Errorf("from %v to %v, attempt %d: %v, want %v", c.least, c.most, i+1, got, want)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		least := time.Duration(rapid.Int64Min(0).Draw(rt, "least"))
		most := time.Duration(rapid.Int64Min(int64(least)).Draw(rt, "most"))
		q := bus.QueueConfig{BackoffMin: least, BackoffMax: most}
		before := least
		for attempt := range 100 {
			d := q.Backoff(attempt)
			if d < before || d > most {
				rt.Fatalf("attempt %d waits %v, after %v, within %v and %v", attempt, d, before, least, most)
			}
			before = d
		}
	})
}

func TestValidateRouteRejectsInvalidQueuesAndRoutes(t *testing.T) {
	good := bus.QueueConfig{Name: "q", Visibility: time.Second, MaxAttempts: 1, BackoffMax: time.Second}
	with := func(change func(q *bus.QueueConfig)) []bus.QueueConfig {
		q := good
		change(&q)
		return []bus.QueueConfig{q}
	}
	for what, c := range map[string]struct {
		queues []bus.QueueConfig
		route  bus.Route
		want   error
	}{
		"a valid queue":      {[]bus.QueueConfig{good}, bus.Route{"t": {"q"}, "u": nil}, nil},
		"no queue at all":    {nil, nil, nil},
		"no name":            {with(func(q *bus.QueueConfig) { q.Name = "" }), nil, bus.ErrInvalid},
		"a long name":        {with(func(q *bus.QueueConfig) { q.Name = strings.Repeat("q", 81) }), nil, bus.ErrInvalid},
		"a name not UTF-8":   {with(func(q *bus.QueueConfig) { q.Name = "\xff" }), nil, bus.ErrInvalid},
		"no visibility":      {with(func(q *bus.QueueConfig) { q.Visibility = 0 }), nil, bus.ErrInvalid},
		"no attempts":        {with(func(q *bus.QueueConfig) { q.MaxAttempts = 0 }), nil, bus.ErrInvalid},
		"a back-off below 0": {with(func(q *bus.QueueConfig) { q.BackoffMin = -1 }), nil, bus.ErrInvalid},
		"reversed bounds":    {with(func(q *bus.QueueConfig) { q.BackoffMin = time.Minute }), nil, bus.ErrInvalid},
		"a duplicate queue":  {[]bus.QueueConfig{good, good}, nil, bus.ErrInvalid},
		"a route to nowhere": {[]bus.QueueConfig{good}, bus.Route{"t": {"q", "r"}}, bus.ErrUnknownQueue},
		"a duplicate route":  {[]bus.QueueConfig{good}, bus.Route{"t": {"q", "q"}}, bus.ErrInvalid},
	} {
		if err := bus.ValidateRoute(c.route, c.queues); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

func TestReasonIsCutToUTF8(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		reason := string(rapid.SliceOfN(rapid.Byte(), 0, 2*bus.MaxReasonBytes).Draw(rt, "reason"))
		got := bus.TrimReason(reason)
		if len(got) > bus.MaxReasonBytes || !utf8.ValidString(got) {
			rt.Fatalf("%d bytes, UTF-8 %v", len(got), utf8.ValidString(got))
		}
		if utf8.ValidString(reason) && len(reason) <= bus.MaxReasonBytes && got != reason {
			rt.Fatalf("%q became %q", reason, got)
		}
	})
}
