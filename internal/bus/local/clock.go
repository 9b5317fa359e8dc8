package local

import "time"

// Clock provides the time and timers for waiting receivers.
type Clock interface {
	Now() time.Time
	// NewTimer returns a channel that receives once after d has passed, and a
	// function that stops the timer.
	NewTimer(d time.Duration) (fired <-chan time.Time, stop func())
}

// systemClock is the Clock of a Config without one.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
