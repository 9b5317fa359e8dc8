package search_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// TestTheBestBranchComesFirst, and of equals the latest; what is no better than the best plan never comes.
func TestTheBestBranchComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 20).Draw(t, "bounds")
		cut := float64(rapid.IntRange(0, 10).Draw(t, "cut"))
		var l search.OpenList
		var want []int // indexes, in the order in which they are to come
		for i, b := range bounds {
			l.Push(float64(b), &search.Decision{Task: int32(i)}) //nolint:gosec // a test
			if float64(b) < cut {
				want = append(want, i)
			}
		}
		slices.SortFunc(want, func(a, b int) int {
			if bounds[a] != bounds[b] {
				return bounds[a] - bounds[b]
			}
			return b - a
		})
		for _, i := range want {
			if least := l.Least(cut); least != float64(bounds[i]) || l.Finished() {
				t.Fatalf("the least is %v, not %v", least, bounds[i])
			}
			if b, ok := l.Pop(cut); !ok || int(b.Decision.Task) != i || b.Bound != float64(bounds[i]) {
				t.Fatalf("%+v (%v) instead of branch %d", b, ok, i)
			}
		}
		if b, ok := l.Pop(cut); ok || !l.Finished() || l.Least(cut) != search.Inf {
			t.Fatalf("%+v comes though it is no better than %v", b, cut)
		}
	})
}

func TestASearchEndsWhereThePlanIsGoodEnough(t *testing.T) {
	m := search.Start(context.Background(), search.Limits{Gap: 0.1})
	for bound, want := range map[float64]bool{89: true, 91: false} {
		var l search.OpenList
		l.Push(bound, nil)
		if got := l.GoOn(100, m); got != want {
			t.Errorf("with a plan of 100 and a bound of %v: goes on: %v", bound, got)
		}
	}
	var l search.OpenList
	l.Push(99.9, nil)
	if !l.GoOn(100, search.Start(context.Background(), search.Limits{})) {
		t.Error("ends before the best plan is proven")
	}
	m.Stopped = true
	if l.GoOn(100, m) {
		t.Error("goes on though it is stopped")
	}
}

// clock is a time that goes on by a second with each look.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { c.at = c.at.Add(time.Second); return c.at }

func TestAMeterStopsAtItsLimits(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := search.Start(ctx, search.Limits{Work: 10})
	if !m.Spend(9) || m.Spend(1) || m.Spend(0) || m.Work != 10 {
		t.Errorf("of 10 steps it does %d", m.Work)
	}
	if m = search.Start(ctx, search.Limits{}); !m.Spend(1<<30) || m.Cancelled() != nil {
		t.Error("without a limit it stops")
	}
	if !m.Spend(1) { // looks again after a while only
		t.Error("without a limit it stops")
	}
	cancel()
	if m.Spend(1<<20) || !errors.Is(m.Cancelled(), context.Canceled) {
		t.Errorf("it goes on though nobody waits: %v", m.Cancelled())
	}
	c := &clock{}
	m = search.Start(context.Background(), search.Limits{Time: 4 * time.Second, Now: c.now})
	looks := 0
	for m.Spend(200_000) {
		looks++
	}
	if looks != 3 {
		t.Errorf("it looks at the clock %d times in three seconds", looks)
	}
	if ms := m.Millis(); ms != 5000 {
		t.Errorf("after five seconds it says %v ms", ms)
	}
}

// TestALookAtTheClockIsRare, as it costs more than most steps do.
func TestALookAtTheClockIsRare(t *testing.T) {
	c := &clock{}
	m := search.Start(context.Background(), search.Limits{Time: 100 * time.Second, Now: c.now})
	before := c.at
	for range 1000 {
		if !m.Spend(1) {
			t.Fatal("it stops")
		}
	}
	if looks := c.at.Sub(before) / time.Second; looks > 1 {
		t.Errorf("it looks at the clock %d times in a thousand steps", looks)
	}
}

func TestAPartOfAMeterHasAPartOfItsLimits(t *testing.T) {
	c := &clock{}
	m := search.Start(context.Background(), search.Limits{Time: 9 * time.Second, Work: 1000, Now: c.now})
	m.Spend(200)
	p := m.Part(0.5)
	if p.Limit != 600 || p.Deadline.Sub(c.at) != m.Deadline.Sub(c.at)/2 {
		t.Errorf("half of 800 steps ends at %d, half of %v in %v", p.Limit, m.Deadline.Sub(c.at), p.Deadline.Sub(c.at))
	}
	if !p.Spend(399) || p.Spend(1) || m.Stopped {
		t.Error("a part does not end where it is to")
	}
	if m.Join(p); m.Work != 600 || !m.Spend(0) {
		t.Errorf("%d steps are counted of 600", m.Work)
	}
	m.AtMost(50)
	if !m.Spend(49) || m.Spend(1) {
		t.Error("does more than it is to do at most")
	}
	m = search.Start(context.Background(), search.Limits{Work: 10})
	if m.AtMost(100); m.Limit != 10 {
		t.Errorf("a limit of 10 becomes %d", m.Limit)
	}
	if m = search.Start(context.Background(), search.Limits{}); true {
		m.AtMost(0)
	}
	if m.Limit != 1 {
		t.Errorf("no work at all is %d steps", m.Limit)
	}
	free := search.Start(context.Background(), search.Limits{}).Part(0.1)
	if free.Limit != 0 || !free.Deadline.IsZero() {
		t.Errorf("a part of no limit is %d steps until %v", free.Limit, free.Deadline)
	}
}

func TestDifferencesThatCountAsNone(t *testing.T) {
	if c := search.CutBelow(100); !(c < 100-1e-9 && c > 100-1e-7) || search.CutBelow(search.Inf) != search.Inf {
		t.Errorf("better than 100 is below %v", c)
	}
	if b := search.Beyond(100); !(b > 100+1e-8 && b < 100+1e-6) || !(search.Beyond(0) > 0) {
		t.Errorf("more than 100 is beyond %v", b)
	}
	buf := search.Grow(nil, 10)
	if len(buf) != 10 || cap(buf) != 15 || len(search.Grow(buf, 15)) != 15 || &search.Grow(buf, 15)[0] != &buf[0] {
		t.Error("a buffer does not grow by half, or is another one while it has room")
	}
}
