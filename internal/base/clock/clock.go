// Package clock is the time that hosts and adapters use: the system's clock, a clock that runs faster than wall time
// so that hours of a plan pass in seconds, or a clock that a test moves by hand. A time of such a clock is called
// virtual; a time of the machine's own clock is called wall time.
//
// The pure core gets the current time as an argument and needs no clock.
package clock

import (
	"context"
	"math"
	"time"
)

// Clock returns virtual time and waits for it. All methods are safe for concurrent use.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// After waits until Now is not before until and returns nil, or ctx's error if ctx ends first.
	After(ctx context.Context, until time.Time) error
	// Wall returns the wall time that passes while d passes on this clock.
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

// From returns a clock that shows virtual at the wall time wall, and on which a duration d takes factor·d of wall
// time: with a factor of 0.001 an hour passes in 3.6 seconds. A factor of 0 or 1 (or one that is not a positive
// finite number) is real time. Two clocks with the same arguments agree, so a host that stores the arguments
// continues with the same time after a restart. Times that were recorded in compressed time are ahead of wall time,
// and a clock must never run backwards over them.
func From(wall, virtual time.Time, factor float64) Clock {
	if !(factor > 0) || math.IsInf(factor, 0) {
		factor = 1
	}
	if factor == 1 && wall.Equal(virtual) {
		return system{}
	}
	// Round removes the monotonic reading, which would not survive a restart.
	return scaled{wall: wall.Round(0), virtual: virtual.Round(0), factor: factor}
}

type scaled struct {
	wall, virtual time.Time // the same moment
	factor        float64
}

func (c scaled) Now() time.Time {
	return c.virtual.Add(saturate(float64(time.Since(c.wall)) / c.factor))
}

// Wall rounds up, so that a caller that waits for this time has waited long enough.
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

// saturate converts nanoseconds to a Duration, limited to its range of 292 years.
func saturate(ns float64) time.Duration {
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(ns)
}

// Pause waits for d of wall time. If ctx ends first, it returns ctx's error.
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
