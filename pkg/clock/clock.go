// Package clock is time as hosts and adapters see it: the system's, one that
// runs faster than the wall so that hours of a plan pass in seconds, or one that a
// test moves by hand. A moment of such a clock is called virtual, a moment of the
// machine's own clock wall time.
//
// The pure core takes the present moment as an argument and needs no clock.
package clock

import (
	"context"
	"math"
	"time"
)

// Clock tells virtual time and waits for it. All methods are safe for concurrent use.
type Clock interface {
	// Now is the present moment.
	Now() time.Time
	// After returns nil once Now is not before until, or ctx's error if that ends first.
	After(ctx context.Context, until time.Time) error
	// Wall is how much wall time passes while d passes on this clock.
	Wall(d time.Duration) time.Duration
}

// System returns the machine's own clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time                     { return time.Now() }
func (system) Wall(d time.Duration) time.Duration { return d }
func (system) After(ctx context.Context, until time.Time) error {
	return Pause(ctx, time.Until(until))
}

// From returns a clock that shows virtual when the wall shows wall, and on which a span d takes factor·d of wall time
// from there on: with 0.001 an hour passes in 3.6 seconds. A factor of 0 or 1 (or one that is no positive finite
// number) is real time. Two clocks made with the same arguments agree, so a host that keeps them goes on with the same
// time after a restart. What was recorded in compressed time lies ahead of the wall, and a clock must not run backwards
// over it.
func From(wall, virtual time.Time, factor float64) Clock {
	if !(factor > 0) || math.IsInf(factor, 0) {
		factor = 1
	}
	if factor == 1 && wall.Equal(virtual) {
		return system{}
	}
	// Without the monotonic reading, which a restart would not have.
	return scaled{wall: wall.Round(0), virtual: virtual.Round(0), factor: factor}
}

type scaled struct {
	wall, virtual time.Time // the same moment
	factor        float64
}

func (c scaled) Now() time.Time {
	return c.virtual.Add(saturate(float64(time.Since(c.wall)) / c.factor))
}

// Wall rounds up, so that whoever waits so long has waited long enough.
func (c scaled) Wall(d time.Duration) time.Duration {
	return saturate(math.Ceil(float64(d) * c.factor))
}

func (c scaled) After(ctx context.Context, until time.Time) error {
	for {
		left := until.Sub(c.Now())
		if left <= 0 {
			return ctx.Err()
		}
		if err := Pause(ctx, c.Wall(left)); err != nil {
			return err
		}
	}
}

// saturate turns nanoseconds into a Duration, keeping to its range of 292 years.
func saturate(ns float64) time.Duration {
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(ns)
}

// Pause waits d of wall time, or until ctx ends, and returns its error then.
func Pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
