package optimizer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// FrontierOptions tune [Frontier]. The zero value finds every point.
type FrontierOptions struct {
	// TimeLimit and WorkLimit bound the whole call, as in [Options]. What they
	// leave unexplored is in Front.Unexplored.
	TimeLimit time.Duration
	WorkLimit int64
	// PointWork bounds the search for one point, in the steps of
	// Options.WorkLimit; a point whose search was cut short has a bound below
	// its cost. Zero is no limit.
	PointWork int64
	// MaxPoints stops after so many points, which then are spread over the
	// front; zero is no limit.
	MaxPoints int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Front is the Pareto front of cost and makespan: the plans that no other plan
// beats in one without losing in the other.
type Front struct {
	// Points are the plans found, from the fastest and dearest to the slowest
	// and cheapest. Their Objective is USD and their Bound is proven: no plan
	// as fast costs less. Plans closer than a relative 1e-8 count as one.
	Points []Solution `json:"points"`
	// Complete means that the points are the whole front, proven.
	Complete bool `json:"complete"`
	// Unexplored are the gaps between points in which there may be more.
	Unexplored []Gap `json:"unexplored,omitempty"`
	// Millis is the time it took, by FrontierOptions.Now.
	Millis float64 `json:"millis"`
}

// Gap is a part of the plane between two points of a front that has not been
// searched. A point missing there takes between FromHours and ToHours and costs
// between FromUSD and ToUSD.
type Gap struct {
	FromHours float64 `json:"fromHours"`
	ToHours   float64 `json:"toHours"`
	FromUSD   float64 `json:"fromUSD"`
	ToUSD     float64 `json:"toUSD"`
}

// Frontier finds the Pareto front of cost (equation 1) and makespan (equations 2
// and 3) of m's plans that keep its bounds, whatever its objective. It asks again
// and again for the cheapest plan within a deadline (the box method of Hamacher,
// Pedersen and Ruzika, Finding representative systems for discrete bicriterion
// optimization problems, 2007): first half way between points, so that a front
// cut short is spread evenly, then just before each point, which proves that
// nothing is left out. An infeasible model has no points and a complete front.
// Errors are those of [Solve].
func Frontier(ctx context.Context, m *Model, o FrontierOptions) (*Front, error) {
	if len(m.Together) > 0 && len(m.Spread) == 0 {
		return frontierTogether(ctx, m, o)
	}
	f, err := frameFor(m, foldPareto)
	if err != nil {
		return nil, err
	}
	w := &frontSearch{ctx: ctx, model: *m, frame: f, o: o,
		m: newMeter(ctx, Options{TimeLimit: o.TimeLimit, Now: o.Now})}
	f.model = &w.model
	front, err := w.run(m)
	if err != nil {
		return nil, err
	}
	front.Millis = w.m.Millis()
	return front, nil
}

// frontSearch is one search for a front.
type frontSearch struct {
	ctx    context.Context
	model  Model // whose objective and deadline change
	frame  *compiled
	o      FrontierOptions
	m      *search.Meter
	points []*Solution
	boxes  []box2
	// rough means that the search for some point was cut short.
	rough bool
	work  int64
}

// box2 is the part of the plane between a fast point and a slow one where points
// may be missing: their makespan is over after and below that of the slow one.
type box2 struct {
	fast, slow *Solution
	after      float64
	halved     int
}

func (b *box2) area() float64 {
	return (b.slow.Hours - b.after) * (b.fast.USD - b.slow.USD)
}

// halvings is how often a box is parted in the middle before it is searched from
// its slow end.
const halvings = 4

// apart is the relative difference in makespan or cost from which on two points
// are two.
const apart = 1e-8

func (w *frontSearch) run(m *Model) (*Front, error) {
	fast, cheap, err := w.ends(m)
	if err != nil {
		return nil, err
	}
	if fast == nil {
		return &Front{Points: []Solution{}, Complete: true}, nil
	}
	w.points = append(w.points, fast)
	if cheap.USD < fast.USD*(1-apart) {
		w.points = append(w.points, cheap)
		w.push(box2{fast: fast, slow: cheap, after: fast.Hours})
	}
	for len(w.boxes) > 0 && !w.over() {
		if err := w.search(w.largest()); err != nil {
			return nil, err
		}
	}
	return w.front(), nil
}

// over tells whether a limit has been reached.
func (w *frontSearch) over() bool {
	return w.o.MaxPoints > 0 && len(w.points) >= w.o.MaxPoints ||
		w.o.WorkLimit > 0 && w.work >= w.o.WorkLimit ||
		!w.m.Deadline.IsZero() && !w.m.Now().Before(w.m.Deadline)
}

// ends finds the fastest plan, the cheapest of those, and the cheapest, the
// fastest of those; nil where no plan keeps the bounds.
func (w *frontSearch) ends(m *Model) (fast, cheap *Solution, err error) {
	free := *m
	free.Objective = Makespan
	quick, err := Solve(w.ctx, &free, w.options(nil))
	if err != nil {
		return nil, nil, err
	}
	if quick.Status == Infeasible {
		return nil, nil, nil
	}
	w.model.Objective = Cost
	if fast, err = w.within(quick.Hours, quick.Picks); err != nil || fast == nil {
		return nil, nil, err
	}
	latest := math.Inf(1)
	if m.DeadlineHours != nil {
		latest = *m.DeadlineHours
	}
	if cheap, err = w.within(latest, fast.Picks); err != nil || cheap == nil {
		return nil, nil, err
	}
	return fast, cheap, nil
}

// within is the cheapest plan that takes at most the given hours, nil where there
// is none.
func (w *frontSearch) within(hours float64, hint []int) (*Solution, error) {
	w.model.DeadlineHours = &hours
	if math.IsInf(hours, 1) {
		w.model.DeadlineHours = nil
	}
	if err := w.model.checkBounds(); err != nil {
		return nil, err
	}
	o := w.options(hint)
	meter := newMeter(w.ctx, o)
	p, err := (&Prepared{model: &w.model, frame: *w.frame}).solveOn(meter, o.Hint, search.DefaultThresholds())
	w.work += meter.Work
	if err != nil || p.Status == Infeasible {
		return nil, err
	}
	w.rough = w.rough || p.Status != Optimal
	return p, nil
}

// options are those of one solve: what is left of the limits.
func (w *frontSearch) options(hint []int) Options {
	o := Options{WorkLimit: w.o.PointWork, Hint: hint, Now: w.m.Now}
	if w.o.WorkLimit > 0 {
		o.WorkLimit = max(1, w.o.WorkLimit-w.work)
		if w.o.PointWork > 0 {
			o.WorkLimit = min(o.WorkLimit, w.o.PointWork)
		}
	}
	if !w.m.Deadline.IsZero() {
		o.TimeLimit = max(time.Nanosecond, w.m.Deadline.Sub(w.m.Now()))
	}
	return o
}

// search takes one step in b: it finds the cheapest plan within a deadline.
func (w *frontSearch) search(b box2) error {
	deadline, searched := b.slow.Hours*(1-apart), true
	if middle := (b.after + b.slow.Hours) / 2; b.halved < halvings && middle < deadline {
		deadline, searched = middle, false
		b.halved++
	}
	p, err := w.within(deadline, b.fast.Picks)
	if errors.Is(err, ErrUndecided) {
		w.rough, p, err = true, nil, nil
	}
	if err != nil {
		return err
	}
	rest := box2{fast: b.fast, slow: b.slow, after: deadline, halved: b.halved}
	switch {
	case p == nil || p.USD >= b.fast.USD*(1-apart):
		// nothing is cheaper than the fast point and within the deadline
	case p.USD <= b.slow.USD*(1+apart):
		// as cheap as the slow point, and faster: that one is no point at all
		w.replace(b.slow, p)
		w.push(box2{fast: b.fast, slow: p, after: b.after, halved: b.halved})
		return nil
	default:
		w.points = append(w.points, p)
		w.push(box2{fast: b.fast, slow: p, after: b.after, halved: b.halved})
		rest.fast = p
	}
	if !searched {
		w.push(rest)
	}
	return nil
}

// replace puts point p in the place of old, on the front and in the boxes that
// begin at it.
func (w *frontSearch) replace(old, p *Solution) {
	w.points[slices.Index(w.points, old)] = p
	for i := range w.boxes {
		if w.boxes[i].fast == old {
			w.boxes[i].fast = p
		}
	}
}

// push adds a box unless it is too thin to hold a point.
func (w *frontSearch) push(b box2) {
	if b.after < b.slow.Hours*(1-apart) && b.fast.USD > b.slow.USD*(1+apart) {
		w.boxes = append(w.boxes, b)
	}
}

// largest takes the box with the largest area out of the list.
func (w *frontSearch) largest() box2 {
	best := 0
	for i := range w.boxes {
		if w.boxes[i].area() > w.boxes[best].area() {
			best = i
		}
	}
	b := w.boxes[best]
	w.boxes = slices.Delete(w.boxes, best, best+1)
	return b
}

// front orders what was found.
func (w *frontSearch) front() *Front {
	f := &Front{Points: []Solution{}, Complete: len(w.boxes) == 0 && !w.rough}
	slices.SortFunc(w.points, func(a, b *Solution) int {
		return cmp.Or(cmp.Compare(a.Hours, b.Hours), cmp.Compare(a.USD, b.USD))
	})
	for _, p := range w.points {
		if n := len(f.Points); n == 0 || p.USD < f.Points[n-1].USD*(1-apart) {
			f.Points = append(f.Points, *p)
		}
	}
	for _, b := range w.boxes {
		f.Unexplored = append(f.Unexplored, Gap{
			FromHours: b.after, ToHours: b.slow.Hours, FromUSD: b.slow.USD, ToUSD: b.fast.USD,
		})
	}
	slices.SortFunc(f.Unexplored, func(a, b Gap) int { return cmp.Compare(a.FromHours, b.FromHours) })
	return f
}
