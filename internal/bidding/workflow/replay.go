package workflow

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// progress is what is known about all tasks at a time of a run.
type progress struct {
	now   float64
	begun []bool
	left  []float64 // work left of each task
	at    []float64 // the time of left, for tasks that have begun
}

// progress returns that of a workflow that has not begun.
func (w *Workflow) progress() *progress {
	n := len(w.work)
	return &progress{begun: make([]bool, n), left: slices.Clone(w.work), at: make([]float64, n)}
}

// moment is the input of a decision: one task at one time, until the next full hour.
type moment struct {
	task   int
	run    *progress
	work   float64 // left
	now    float64 // hours since the start of the run
	hour   int     // index of the hour in the prices; its price is not known yet
	finish float64 // latest finish of the task with which the rest can still be done in time on demand
	spare  float64 // until the next full hour
	// held is the machine that it ran on until now: the type of a spot machine, or one of the values below. A start in
	// progress takes starting more hours; every other machine takes restart hours until work continues.
	held              int
	starting, restart float64
}

// Machines that are not spot machines.
const (
	noMachine       = -1
	onDemandMachine = -2
)

// late reports the point of no return: losing this hour would miss the latest finish.
func (m *moment) late() bool { return m.now+m.spare+m.restart+m.work > m.finish+1e-9 }

// start returns the hours until work continues on a machine.
func (m *moment) start(machine int) float64 {
	if machine == m.held {
		return m.starting
	}
	return m.restart
}

// reserve is the time in hours that methods keep back: a lost machine may cost an hour and a start.
func (w *Workflow) reserve() float64 { return 1 + w.restart }

// own returns the time within which methods plan to end a workflow: the reserve before its deadline, but no less than
// its longest path takes.
func (w *Workflow) own(deadline float64) float64 { return max(deadline-w.reserve(), w.longest) }

// order is a method's decision: run on a spot machine of a type if its price is at most maxUSD, otherwise on demand
// or not at all. kind −1 means no bid. The method decides again after the given hours, and at the latest at the next
// full hour; 0 is then.
type order struct {
	kind     int
	maxUSD   float64
	onDemand bool
	hours    float64
}

// method decides for all tasks of a run.
type method interface {
	order(ctx context.Context, m moment) (order, error)
}

// replay runs all tasks in the order of time. Each has a separate machine, so their runs depend on each other only
// through their start times, and through what methods decide by the progress of others.
func (w *Workflow) replay(ctx context.Context, m method, start int, deadline float64) (out Outcome, err error) {
	run, waitsFor := w.progress(), make([]int, len(w.work))
	var active []*moment
	begin := func(task int) {
		active = append(active, &moment{task: task, run: run, work: w.work[task], now: run.now,
			finish: deadline - w.tail[task], held: noMachine, restart: w.restart})
	}
	for i := range w.work {
		if waitsFor[i] = len(w.graph.Parents(i)); waitsFor[i] == 0 {
			begin(i)
		}
	}
	for len(active) > 0 {
		next := slices.MinFunc(active, func(a, b *moment) int { return cmp.Compare(a.now, b.now) })
		run.now, run.left[next.task], run.at[next.task] = next.now, next.work, next.now
		if next.work > 1e-9 {
			if err = w.advance(ctx, m, next, start, &out); err != nil {
				return out, err
			}
			run.begun[next.task] = true
			continue
		}
		run.begun[next.task], run.left[next.task] = true, 0
		out.Missed = out.Missed || next.now > deadline+1e-6
		active = slices.DeleteFunc(active, func(a *moment) bool { return a == next })
		for _, c := range w.graph.Children(next.task) {
			if waitsFor[c]--; waitsFor[c] == 0 {
				begin(int(c))
			}
		}
	}
	return out, nil
}

// advance runs a task until its next decision.
func (w *Workflow) advance(ctx context.Context, m method, at *moment, start int, out *Outcome) error {
	whole := math.Floor(at.now + 1e-9)
	at.hour, at.spare = start+int(whole), whole+1-at.now
	o, err := m.order(ctx, *at)
	if err != nil {
		return err
	}
	if at.late() {
		// Beyond this point only on-demand is in time, whatever the method decides.
		o = order{kind: -1, onDemand: true}
	}
	machine, speed, usd := noMachine, 0.0, 0.0
	switch {
	case o.kind >= 0 && w.types[o.kind].USD[at.hour] <= o.maxUSD:
		machine, speed, usd = o.kind, w.speed[o.kind], w.types[o.kind].USD[at.hour]
	case o.onDemand:
		machine, speed, usd = onDemandMachine, 1, w.unitUSD
	}
	if at.held >= 0 && o.kind == at.held && machine != at.held {
		out.Interruptions++
	}
	at.held, at.starting = machine, at.start(machine)
	span := at.spare
	if o.hours > 0 {
		span = min(span, o.hours)
	}
	if speed > 0 {
		span = min(span, at.starting+at.work/speed)
	}
	out.USD += span * usd
	at.work -= max(0, span-at.starting) * speed
	at.starting = max(0, at.starting-span)
	at.now += span
	return nil
}
