package optimizer

import (
	"context"
	"fmt"
	"time"
)

// meter counts the work of one call and says when to stop. It looks at the
// clock and the context only every so many steps, since both cost more than
// most steps do.
type meter struct {
	ctx      context.Context
	now      func() time.Time
	started  time.Time
	deadline time.Time // zero is none
	limit    int64     // of work; 0 is none
	gap      float64   // relative, at which a plan is good enough; 0 is none
	work     int64
	lookAt   int64 // amount of work at which to look at the clock next
	stopped  bool
}

// lookEvery is the work between two looks at the clock: well under a
// millisecond's worth.
const lookEvery = 200_000

// limits say when a meter stops.
type limits struct {
	time time.Duration    // zero is no limit
	work int64            // likewise
	gap  float64          // relative, at which a plan is good enough
	now  func() time.Time // nil is time.Now
}

// startMeter begins to count.
func startMeter(ctx context.Context, o limits) *meter {
	m := &meter{ctx: ctx, now: o.now, limit: o.work, gap: o.gap}
	if m.now == nil {
		m.now = time.Now
	}
	m.started = m.now()
	if o.time > 0 {
		m.deadline = m.started.Add(o.time)
	}
	return m
}

// spend adds to the work done and reports whether to go on.
func (m *meter) spend(work int) bool {
	m.work += int64(work)
	if m.work < m.lookAt || m.stopped {
		return !m.stopped
	}
	m.lookAt = m.work + lookEvery
	if m.limit > 0 {
		m.lookAt = min(m.lookAt, max(m.limit, m.work+1))
	}
	switch {
	case m.ctx.Err() != nil,
		m.limit > 0 && m.work >= m.limit,
		!m.deadline.IsZero() && !m.now().Before(m.deadline):
		m.stopped = true
	}
	return !m.stopped
}

// cancelled is the context's error, wrapped, or nil.
func (m *meter) cancelled() error {
	if m.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("optimizer: %w", context.Cause(m.ctx))
}

func (m *meter) millis() float64 {
	return float64(m.now().Sub(m.started)) / float64(time.Millisecond)
}

// part returns a meter for a part of what is left of the limits. Its work
// counts here once it is returned to join.
func (m *meter) part(fraction float64) *meter {
	p := *m
	if !m.deadline.IsZero() {
		now := m.now()
		p.deadline = now.Add(time.Duration(fraction * float64(m.deadline.Sub(now))))
	}
	if m.limit > 0 {
		p.limit = m.work + int64(fraction*float64(m.limit-m.work))
		p.lookAt = min(p.lookAt, p.limit)
	}
	return &p
}

// join counts the work of a part.
func (m *meter) join(p *meter) {
	m.work = p.work
	m.lookAt = 0
	m.spend(0)
}
