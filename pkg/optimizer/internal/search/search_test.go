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

// Of branches with equal bounds, the newest must come first. Branches that are not better than the best plan must
// never be returned.
func TestOpenListPopsBestBranch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 20).Draw(t, "bounds")
		cut := float64(rapid.IntRange(0, 10).Draw(t, "cut"))
		var l search.OpenList
		var want []int // indexes in the expected order
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
				t.Fatalf("the lowest bound is %v, not %v", least, bounds[i])
			}
			if b, ok := l.Pop(cut); !ok || int(b.Decision.Task) != i || b.Bound != float64(bounds[i]) {
				t.Fatalf("%+v (%v) instead of branch %d", b, ok, i)
			}
		}
		if b, ok := l.Pop(cut); ok || !l.Finished() || l.Least(cut) != search.Inf {
			t.Fatalf("%+v is returned, but it is no better than %v", b, cut)
		}
	})
}

func TestGoOn(t *testing.T) {
	m := search.Start(context.Background(), search.Limits{Gap: 0.1})
	for bound, want := range map[float64]bool{89: true, 91: false} {
		var l search.OpenList
		l.Push(bound, nil)
		if got := l.Continue(100, m); got != want {
			t.Errorf("with a plan of 100 and a bound of %v: continues: %v", bound, got)
		}
	}
	var l search.OpenList
	l.Push(99.9, nil)
	if !l.Continue(100, search.Start(context.Background(), search.Limits{})) {
		t.Error("ends before the best plan is proven")
	}
	m.Stopped = true
	if l.Continue(100, m) {
		t.Error("continues although it is stopped")
	}
}

// clock advances by a second with each call.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { c.at = c.at.Add(time.Second); return c.at }

func TestMeterStopsAtLimits(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := search.Start(ctx, search.Limits{Work: 10})
	if !m.Spend(9) || m.Spend(1) || m.Spend(0) || m.Work != 10 {
		t.Errorf("of 10 steps it does %d", m.Work)
	}
	if m = search.Start(ctx, search.Limits{}); !m.Spend(1<<30) || m.Cancelled() != nil {
		t.Error("stops without a limit")
	}
	if !m.Spend(1) { // the context is checked only at intervals
		t.Error("stops without a limit")
	}
	cancel()
	if m.Spend(1<<20) || !errors.Is(m.Cancelled(), context.Canceled) {
		t.Errorf("continues after cancellation: %v", m.Cancelled())
	}
	c := &clock{}
	m = search.Start(context.Background(), search.Limits{Time: 4 * time.Second, Now: c.now})
	looks := 0
	for m.Spend(200_000) {
		looks++
	}
	if looks != 3 {
		t.Errorf("reads the clock %d times in three seconds", looks)
	}
	if ms := m.Millis(); ms != 5000 {
		t.Errorf("after five seconds Millis is %v", ms)
	}
}

// The meter must rarely read the clock, because that is more expensive than most steps.
func TestMeterRarelyReadsClock(t *testing.T) {
	c := &clock{}
	m := search.Start(context.Background(), search.Limits{Time: 100 * time.Second, Now: c.now})
	before := c.at
	for range 1000 {
		if !m.Spend(1) {
			t.Fatal("the meter stops")
		}
	}
	if looks := c.at.Sub(before) / time.Second; looks > 1 {
		t.Errorf("reads the clock %d times in a thousand steps", looks)
	}
}

func TestMeterPart(t *testing.T) {
	c := &clock{}
	m := search.Start(context.Background(), search.Limits{Time: 9 * time.Second, Work: 1000, Now: c.now})
	m.Spend(200)
	p := m.Part(0.5)
	if p.Limit != 600 || p.Deadline.Sub(c.at) != m.Deadline.Sub(c.at)/2 {
		t.Errorf("half of 800 steps ends at %d, half of %v in %v", p.Limit, m.Deadline.Sub(c.at), p.Deadline.Sub(c.at))
	}
	if !p.Spend(399) || p.Spend(1) || m.Stopped {
		t.Error("a part does not stop at its limit")
	}
	if m.Join(p); m.Work != 600 || !m.Spend(0) {
		t.Errorf("%d steps are counted of 600", m.Work)
	}
	m.AtMost(50)
	if !m.Spend(49) || m.Spend(1) {
		t.Error("does more than its maximum")
	}
	m = search.Start(context.Background(), search.Limits{Work: 10})
	if m.AtMost(100); m.Limit != 10 {
		t.Errorf("a limit of 10 becomes %d", m.Limit)
	}
	if m = search.Start(context.Background(), search.Limits{}); true {
		m.AtMost(0)
	}
	if m.Limit != 1 {
		t.Errorf("a limit of zero work is %d steps", m.Limit)
	}
	free := search.Start(context.Background(), search.Limits{}).Part(0.1)
	if free.Limit != 0 || !free.Deadline.IsZero() {
		t.Errorf("a part without a limit has %d steps until %v", free.Limit, free.Deadline)
	}
}

func TestTolerances(t *testing.T) {
	if c := search.CutBelow(100); !(c < 100-1e-9 && c > 100-1e-7) || search.CutBelow(search.Inf) != search.Inf {
		t.Errorf("CutBelow(100) is %v", c)
	}
	if b := search.Beyond(100); !(b > 100+1e-8 && b < 100+1e-6) || !(search.Beyond(0) > 0) {
		t.Errorf("Beyond(100) is %v", b)
	}
	buf := search.Grow(nil, 10)
	if len(buf) != 10 || cap(buf) != 15 || len(search.Grow(buf, 15)) != 15 || &search.Grow(buf, 15)[0] != &buf[0] {
		t.Error("a buffer does not grow by half, or is replaced although it is large enough")
	}
}
