// Package search has the parts that all methods share: the meter that counts their work and stops them, the list of
// open branches, tolerances, and the thresholds for the choice of methods. It does not know tasks.
package search

import (
	"context"
	"fmt"
	"time"
)

// Meter counts the work of one call and decides when to stop. It checks the clock and the context only at intervals,
// because these checks are more expensive than most steps.
type Meter struct {
	ctx       context.Context
	Now       func() time.Time
	started   time.Time
	Deadline  time.Time // zero means none
	Limit     int64     // of work; 0 means none
	Gap       float64   // relative gap at which a plan is good enough; 0 means none
	Work      int64
	NextCheck int64 // amount of work at which the clock is checked next
	Stopped   bool
}

// checkEvery is the work between two checks of the clock, much less than a millisecond.
const checkEvery = 200_000

// Limits are the limits of a meter.
type Limits struct {
	Time time.Duration    // zero means no limit
	Work int64            // zero means no limit
	Gap  float64          // relative gap at which a plan is good enough
	Now  func() time.Time // nil means time.Now
}

// Start returns a meter that starts counting now.
func Start(ctx context.Context, o Limits) *Meter {
	m := &Meter{ctx: ctx, Now: o.Now, Limit: o.Work, Gap: o.Gap}
	if m.Now == nil {
		m.Now = time.Now
	}
	m.started = m.Now()
	if o.Time > 0 {
		m.Deadline = m.started.Add(o.Time)
	}
	return m
}

// Spend adds to the work done and reports whether to continue.
func (m *Meter) Spend(work int) bool {
	m.Work += int64(work)
	if m.Work < m.NextCheck || m.Stopped {
		return !m.Stopped
	}
	m.NextCheck = m.Work + checkEvery
	if m.Limit > 0 {
		m.NextCheck = min(m.NextCheck, max(m.Limit, m.Work+1))
	}
	switch {
	case m.ctx.Err() != nil,
		m.Limit > 0 && m.Work >= m.Limit,
		!m.Deadline.IsZero() && !m.Now().Before(m.Deadline):
		m.Stopped = true
	}
	return !m.Stopped
}

// Cancelled returns the context's error, wrapped, or nil.
func (m *Meter) Cancelled() error {
	if m.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("optimizer: %w", context.Cause(m.ctx))
}

// Millis returns the time since the start in milliseconds.
func (m *Meter) Millis() float64 {
	return float64(m.Now().Sub(m.started)) / float64(time.Millisecond)
}

// Part returns a meter for a part of the remaining limits. Its work counts here after Join.
func (m *Meter) Part(fraction float64) *Meter {
	p := *m
	if !m.Deadline.IsZero() {
		now := m.Now()
		p.Deadline = now.Add(time.Duration(fraction * float64(m.Deadline.Sub(now))))
	}
	if m.Limit > 0 {
		p.AtMost(int64(fraction * float64(m.Limit-m.Work)))
	}
	return &p
}

// AtMost stops the meter after the given amount of additional work, or earlier if it has a lower limit.
func (m *Meter) AtMost(work int64) {
	if m.Limit == 0 || m.Work+work < m.Limit {
		m.Limit = max(1, m.Work+work) // 0 would mean no limit
		m.NextCheck = min(m.NextCheck, m.Limit)
	}
}

// Join adds the work of a part.
func (m *Meter) Join(p *Meter) {
	m.Work = p.Work
	m.NextCheck = 0
	m.Spend(0)
}
