// Package search holds what all methods share: the meter that counts their work and stops them, the list of open
// branches, the differences that count as none, and the thresholds between methods. It knows nothing of tasks.
package search

import (
	"context"
	"fmt"
	"time"
)

// Meter counts the work of one call and says when to stop. It looks at the
// clock and the context only every so many steps, since both cost more than
// most steps do.
type Meter struct {
	ctx      context.Context
	Now      func() time.Time
	started  time.Time
	Deadline time.Time // zero is none
	Limit    int64     // of work; 0 is none
	Gap      float64   // relative, at which a plan is good enough; 0 is none
	Work     int64
	LookAt   int64 // amount of work at which to look at the clock next
	Stopped  bool
}

// lookEvery is the work between two looks at the clock: well under a
// millisecond's worth.
const lookEvery = 200_000

// Limits say when a meter stops.
type Limits struct {
	Time time.Duration    // zero is no limit
	Work int64            // likewise
	Gap  float64          // relative, at which a plan is good enough
	Now  func() time.Time // nil is time.Now
}

// Start returns a meter that counts from now on.
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

// Spend adds to the work done and reports whether to go on.
func (m *Meter) Spend(work int) bool {
	m.Work += int64(work)
	if m.Work < m.LookAt || m.Stopped {
		return !m.Stopped
	}
	m.LookAt = m.Work + lookEvery
	if m.Limit > 0 {
		m.LookAt = min(m.LookAt, max(m.Limit, m.Work+1))
	}
	switch {
	case m.ctx.Err() != nil,
		m.Limit > 0 && m.Work >= m.Limit,
		!m.Deadline.IsZero() && !m.Now().Before(m.Deadline):
		m.Stopped = true
	}
	return !m.Stopped
}

// Cancelled is the context's error, wrapped, or nil.
func (m *Meter) Cancelled() error {
	if m.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("optimizer: %w", context.Cause(m.ctx))
}

// Millis is the time since the start, in milliseconds.
func (m *Meter) Millis() float64 {
	return float64(m.Now().Sub(m.started)) / float64(time.Millisecond)
}

// Part returns a meter for a part of what is left of the limits. Its work
// counts here once it is returned to Join.
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

// AtMost stops the meter after so much more work, or before, where it has a limit that comes first.
func (m *Meter) AtMost(work int64) {
	if m.Limit == 0 || m.Work+work < m.Limit {
		m.Limit = max(1, m.Work+work) // 0 would be no limit
		m.LookAt = min(m.LookAt, m.Limit)
	}
}

// Join counts the work of a part.
func (m *Meter) Join(p *Meter) {
	m.Work = p.Work
	m.LookAt = 0
	m.Spend(0)
}
