package bidding

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// Holding is the kind of machine that a task runs on when a step begins.
type Holding uint8

// The kinds of holdings.
const (
	OnNothing Holding = iota
	OnSpot            // a spot machine, unless it was just interrupted
	OnDemand          // an on-demand machine
	holdings
)

// missedCost is the cost of missing the deadline. It is large enough to dominate every sum. It is
// finite, so that a state with probability 0 adds 0 to a sum.
const missedCost = float32(1e30)

// Table holds the lowest expected remaining cost of a task for every combination of remaining work, remaining time
// and market state. It is the recursion of WCSSI, equations 3 to 8, over the states of a Model.
//
// If work plus a restart equals the time left, the rest runs on demand. Spot is used only if this is still possible
// after the whole step is lost. So no deadline is missed, whatever the market does. (Equation 1 is a consequence:
// with one step to spare, and prices capped by the on-demand price, the best bid is the on-demand price.)
//
// The values are stored by time and slack (the time beyond the work). A step that works keeps the slack, a step that
// waits uses one step of it, and a start uses the restart. So a run that begins with little slack needs a small
// table, whatever its length.
type Table struct {
	model  Model
	work   int // maximum steps of work
	time   int // maximum steps of time
	slack  int // maximum steps of slack
	levels int
	stride int // levels, padded to whole lanes
	kinds  int // 1 without a restart, else holdings
	rows   int // slacks per time, padded to whole tiles
	pt     []float32
	v      []float32 // [time][kind][slack][stride]
}

// Build computes the table for up to the given steps of work and time. It takes about kinds·work·time·L²
// multiplications (kinds is 3 with a restart, 1 without), half of that if work equals time. Errors wrap ErrModel, or
// are the context's.
func Build(ctx context.Context, m Model, work, time int) (*Table, error) {
	return build(ctx, m, work, time, time)
}

// BuildRun is Build for one run. Slack never grows during a run, so the table leaves out states with more slack than
// the run begins with.
func BuildRun(ctx context.Context, m Model, work, time int) (*Table, error) {
	return build(ctx, m, work, time, time-work)
}

func build(ctx context.Context, m Model, work, time, slack int) (*Table, error) {
	if work < 0 || time < work || time > 1<<14 {
		return nil, fmt.Errorf("%w: %d steps of work in %d", ErrModel, work, time)
	}
	if err := m.check(time); err != nil {
		return nil, err
	}
	n := m.Levels()
	t := &Table{model: m, work: work, time: time, slack: slack, levels: n, kinds: 1}
	if m.Restart > 0 {
		t.kinds = int(holdings)
		t.work = time // a start adds to the work, so losses may leave more work than there was at first
	}
	t.stride = n + (lanes-n%lanes)%lanes
	t.rows = (slack/tile + 1) * tile
	t.pt = make([]float32, n*t.stride)
	for s := range n {
		for q := range n {
			t.pt[q*t.stride+s] = m.P[s*n+q]
		}
	}
	t.v = newCells((time + 1) * t.kinds * t.rows * t.stride)
	s := newStepper(t)
	for left := 1; left <= time; left++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.fill(left)
	}
	return t, nil
}

// cells pools the cells of freed tables. A broker builds a table for each task that it bids for, of a few hundred
// KiB, and keeps only the results.
var cells sync.Pool // of *[]float32

// newCells returns n zeros.
func newCells(n int) []float32 {
	v, _ := cells.Get().(*[]float32)
	if v == nil || cap(*v) < n {
		return make([]float32, n)
	}
	clear((*v)[:n])
	return (*v)[:n]
}

// free returns the cells of the table to the pool. The table must not be used afterwards.
func (t *Table) free() {
	v := t.v
	t.v = nil
	cells.Put(&v)
}

func (t *Table) offset(left int, kind Holding, slack int) int {
	if t.kinds == 1 {
		kind = 0
	}
	return ((left*t.kinds+int(kind))*t.rows + slack) * t.stride
}

// row returns the values of a time, kind and slack in every state. If the slack equals the time, the work is done and
// the row is zero.
func (t *Table) row(left int, kind Holding, slack int) []float32 {
	at := t.offset(left, kind, slack)
	return t.v[at : at+t.levels]
}

// feasible reports whether work that is on the given holding can still finish in time on demand.
func (t *Table) feasible(work, left float64, kind Holding) bool {
	if kind != OnDemand {
		work += t.model.Restart
	}
	return work <= left+1e-9
}

// stepper computes one step in time. u has the lowest cost from each state that may follow the
// step, by slack and holding. Its expectation is the value of the state before the step.
type stepper struct {
	t        *Table
	spot     []float32
	od, wait float32
	u        [holdings][]float32
}

func newStepper(t *Table) *stepper {
	s := &stepper{t: t, spot: make([]float32, t.levels), od: float32(t.model.OnDemandUSD),
		wait: float32(t.model.ReleaseUSD)}
	for kind := range t.kinds {
		s.u[kind] = make([]float32, t.rows*t.stride)
	}
	return s
}

// fill computes the values with left steps to go.
func (s *stepper) fill(left int) {
	t := s.t
	for q := range s.spot {
		s.spot[q] = t.model.spotUSD(q, left)
	}
	// From the lowest slack, at which all work is left, to the highest, at which one step of work is left.
	first, last := max(0, left-t.work), min(t.slack, left-1)
	for slack := first; slack <= last; slack++ {
		at := slack * t.stride
		to := s.u[OnNothing][at : at+t.levels]
		switch {
		case t.kinds > 1:
			s.best(left, slack)
		case slack == 0 && t.model.Fallback:
			s.pinned(to, left)
		case slack == 0:
			fillRow(to, float32(left)*s.od)
		default:
			s.simple(to, left, slack)
		}
	}
	for kind := range t.kinds {
		// The last tile may extend beyond the slack range. Those cells stay zero because u is zero there: the
		// work is done.
		for slack := first / tile * tile; slack <= last; slack += tile {
			at := t.offset(left, Holding(kind), slack)
			for j := 0; j < t.stride; j += lanes {
				multiply(t.v[at+j:], t.pt[j:], s.u[kind][slack*t.stride:], t.levels, t.stride)
			}
		}
	}
}

// simple computes equation 7 for a market without restarts: pay for the step, at the spot or the on-demand price, or
// wait.
func (s *stepper) simple(to []float32, left, slack int) {
	run, wait := s.t.row(left-1, OnNothing, slack), s.t.row(left-1, OnNothing, slack-1)
	run, wait = run[:len(to)], wait[:len(to)]
	for q, usd := range s.spot[:len(to)] {
		to[q] = min(min(usd, s.od)+run[q], s.wait+wait[q])
	}
}

// pinned computes a step without slack: it must run, on whichever is cheaper.
func (s *stepper) pinned(to []float32, left int) {
	run := s.t.row(left-1, OnNothing, 0)
	for q, usd := range s.spot[:len(to)] {
		to[q] = min(usd, s.od) + run[q]
	}
}

// best chooses among waiting, a spot machine and an on-demand machine, each with the cost of its start. Waiting and
// spot are possible only if a lost step leaves enough time for a start on demand. A task that holds a machine has the
// same choices as one without, and can also continue without a start.
func (s *stepper) best(left, slack int) {
	t := s.t
	at, n := slack*t.stride, t.levels
	idle, spot, od := s.u[OnNothing][at:at+n], s.u[OnSpot][at:at+n], s.u[OnDemand][at:at+n]
	if !t.model.Fallback && float64(slack) < t.model.Restart-1e-9 {
		fillRow(idle, missedCost)
	} else {
		s.start(idle, left, slack)
	}
	copy(spot, idle)
	odKept := t.row(left-1, OnDemand, slack)[:n]
	for q := range od {
		od[q] = min(idle[q], s.od+odKept[q])
	}
	if !t.spotAllowed(slack, 1) {
		return
	}
	kept := t.row(left-1, OnSpot, slack)[:n]
	for q, usd := range s.spot[:n] {
		if !t.model.fresh(q) {
			spot[q] = min(spot[q], usd+kept[q])
		}
	}
}

// start chooses for a task without a machine.
func (s *stepper) start(to []float32, left, slack int) {
	t := s.t
	share := s.share()
	// With a fallback, a start may take more time than the slack. The missing time is charged at the on-demand price;
	// the caller makes sure that this does not happen.
	short := float32(max(0, t.model.Restart-float64(slack))) * s.od
	lo, hi := s.after(left, OnDemand, slack)
	lo, hi = lo[:len(to)], hi[:len(to)]
	for q := range to {
		to[q] = s.od + short + lo[q] + share*(hi[q]-lo[q])
	}
	if !t.spotAllowed(slack, 2) {
		return
	}
	mayWait := !t.model.Fallback || float64(slack) > t.model.Restart
	wait := t.row(left-1, OnNothing, max(slack-1, 0))[:len(to)]
	lo, hi = s.after(left, OnSpot, slack)
	lo, hi = lo[:len(to)], hi[:len(to)]
	for q, usd := range s.spot[:len(to)] {
		to[q] = min(to[q], usd+short+lo[q]+share*(hi[q]-lo[q]))
		if mayWait {
			to[q] = min(to[q], s.wait+wait[q])
		}
	}
}

// spotAllowed reports whether a step may use spot with the given slack, if the given number of
// machine starts must still fit: the start of this step, and one on demand after it. Without a
// fallback, a whole lost step must fit too. With a fallback, a row covers all slacks up to that of
// the next row, so that short starts remain possible.
func (t *Table) spotAllowed(slack, starts int) bool {
	if t.model.Fallback {
		return float64(slack)+1 > float64(starts)*t.model.Restart
	}
	return float64(slack) >= 1+t.model.Restart-1e-9
}

// after returns the values of the state after a step that starts a machine. A start uses up slack,
// often a fraction of a step, so the value lies between two rows: lo and hi.
func (s *stepper) after(left int, on Holding, slack int) (lo, hi []float32) {
	whole := slack - int(s.t.model.Restart)
	return s.t.row(left-1, on, max(whole, 0)), s.t.row(left-1, on, max(whole-1, 0))
}

// share returns the fractional part of a restart in steps.
func (s *stepper) share() float32 {
	return float32(s.t.model.Restart - float64(int(s.t.model.Restart)))
}

func fillRow(row []float32, x float32) {
	for i := range row {
		row[i] = x
	}
}

// Cost returns the lowest expected cost in USD of the given steps of work with the given steps of time left, after a
// step in state s on a holding. It is +Inf if the deadline cannot be met. Work and time may be fractions: the value
// is interpolated between whole steps at the same slack.
func (t *Table) Cost(work, time float64, s int, on Holding) float64 {
	if work <= 0 {
		return 0
	}
	if t.kinds == 1 {
		on = OnNothing
	}
	slack := time - work
	if !t.feasible(work, time, on) {
		return math.Inf(1)
	}
	if start := t.startSteps(on); t.model.Fallback {
		slack = max(slack, 0)
	} else if slack < 1+start {
		return (work + start) * t.model.OnDemandUSD
	}
	lo, tight := int(min(work, float64(t.work))), int(slack)
	fw, fs := min(work, float64(t.work))-float64(lo), slack-float64(tight)
	if fw < 1e-9 && fs == 0 {
		return t.at(lo, tight, s, on)
	}
	if fw < 1e-9 {
		return (1-fs)*t.at(lo, tight, s, on) + fs*t.at(lo, tight+1, s, on)
	}
	return (1-fs)*((1-fw)*t.at(lo, tight, s, on)+fw*t.at(lo+1, tight, s, on)) +
		fs*((1-fw)*t.at(lo, tight+1, s, on)+fw*t.at(lo+1, tight+1, s, on))
}

// at returns the value of whole steps of work and slack, limited to the size of the table.
func (t *Table) at(work, slack, s int, on Holding) float64 {
	work, slack = min(work, t.work), min(slack, t.slack)
	if work == 0 {
		return 0
	}
	if work+slack > t.time {
		slack = t.time - work
	}
	return float64(t.row(work+slack, on, slack)[s])
}

// startSteps returns the time that a move to on-demand takes before work continues.
func (t *Table) startSteps(on Holding) float64 {
	if on == OnDemand {
		return 0
	}
	return t.model.Restart
}
