package clock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

var start = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

func TestScaledClockStartsAtWallTime(t *testing.T) {
	now := time.Now()
	c := scaled(now.Add(-time.Second), 0.001)
	if passed := c.Now().Sub(now); passed < 999*time.Second {
		t.Errorf("after a second of wall time a clock 1000 times as fast had moved %v", passed)
	}
}

func TestRecreatedScaledClockContinues(t *testing.T) {
	before := time.Now().Add(-time.Minute)
	a, b := scaled(before, 0.01), scaled(before, 0.01)
	first := a.Now()
	if b.Now().Before(first) {
		t.Error("a new clock with the same start went backwards")
	}
}

func TestRealTimeFactors(t *testing.T) {
	for _, f := range []float64{0, 1, -2, math.NaN(), math.Inf(1)} {
		if got := scaled(start, f).Wall(time.Hour); got != time.Hour {
			t.Errorf("factor %v: an hour takes %v of wall time", f, got)
		}
	}
}

func TestScaledWaitsInWallTime(t *testing.T) {
	c := scaled(time.Now(), 1e-6)
	until := c.Now().Add(10 * time.Hour) // 36 ms in real time
	if err := c.After(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	if now := c.Now(); now.Before(until) {
		t.Errorf("After returned %v early", until.Sub(now))
	}
}

func TestAfterEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]clock.Clock{
		"system": clock.System(), "scaled": scaled(time.Now(), 0.5), "manual": clock.NewManual(time.Now()),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.After(ctx, time.Now().Add(24*time.Hour)) }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: After returned %v", name, err)
		}
	}
}

func TestWallIsMonotonicAndSaturates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := scaled(start, rapid.Float64Range(1e-9, 1e9).Draw(t, "factor"))
		a := time.Duration(rapid.Int64().Draw(t, "a"))
		b := time.Duration(rapid.Int64().Draw(t, "b"))
		if (a <= b) != (c.Wall(a) <= c.Wall(b)) && c.Wall(a) != c.Wall(b) {
			t.Fatalf("Wall(%d) = %d but Wall(%d) = %d", a, c.Wall(a), b, c.Wall(b))
		}
		if (a > 0) != (c.Wall(a) > 0) && a > 0 {
			t.Fatalf("Wall(%d) = %d", a, c.Wall(a))
		}
	})
}

func TestManualClockWakesDueWaiters(t *testing.T) {
	c := clock.NewManual(start)
	woken := make(chan string, 2)
	for name, at := range map[string]time.Duration{"early": time.Minute, "late": time.Hour} {
		go func() {
			if c.After(t.Context(), start.Add(at)) == nil {
				woken <- name
			}
		}()
	}
	if err := c.Waiters(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Minute)
	if got := <-woken; got != "early" {
		t.Fatalf("%s woke first", got)
	}
	c.Advance(time.Hour)
	if got := <-woken; got != "late" {
		t.Fatalf("%s woke second", got)
	}
	if got := c.Now(); !got.Equal(start.Add(61 * time.Minute)) {
		t.Errorf("the clock shows %v", got)
	}
}

func TestClockContinuesFromVirtualTime(t *testing.T) {
	wall := time.Now()
	ahead := wall.Add(48 * time.Hour)
	for _, factor := range []float64{0, 0.001, 1} {
		c := clock.From(wall, ahead, factor)
		if got := c.Now(); got.Before(ahead) {
			t.Errorf("factor %v: %v is before %v", factor, got, ahead)
		}
		if a, b := c.Now(), c.Now(); b.Before(a) {
			t.Errorf("factor %v: it runs backwards", factor)
		}
	}
}

// scaled returns a clock that starts at the real time and runs faster by a factor.
func scaled(start time.Time, factor float64) clock.Clock { return clock.From(start, start, factor) }
