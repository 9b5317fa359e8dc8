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

// FrontierOptions configure [Frontier]. The zero value finds every point.
type FrontierOptions struct {
	// TimeLimit and WorkLimit limit the whole call, as in [Options]. Front.Unexplored has the parts that were not
	// searched.
	TimeLimit time.Duration
	WorkLimit int64
	// PointWork limits the search for one point, in the steps of Options.WorkLimit. If the search for a point is cut
	// short, its bound is below its cost. Zero means no limit.
	PointWork int64
	// MaxPoints stops the search after this number of points, which are then spread over the front; zero means no
	// limit.
	MaxPoints int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Front is the Pareto front of cost and makespan: the plans that cannot be improved in one without losing in the
// other.
type Front struct {
	// Points are the plans found, from the fastest and most expensive to the slowest and cheapest. Their Objective is
	// USD and their Bound is proven: no plan that is as fast costs less. Plans closer than a relative 1e-8 count as
	// one.
	Points []Solution `json:"points"`
	// Complete means that the points are proven to be the whole front.
	Complete bool `json:"complete"`
	// Unexplored are the gaps between points that may contain more points.
	Unexplored []Gap `json:"unexplored,omitempty"`
	// Millis is the time used in milliseconds, by FrontierOptions.Now.
	Millis float64 `json:"millis"`
}

// Gap is an unsearched part of the plane between two points of a front. A missing point in it takes between FromHours
// and ToHours and costs between FromUSD and ToUSD.
type Gap struct {
	FromHours float64 `json:"fromHours"`
	ToHours   float64 `json:"toHours"`
	FromUSD   float64 `json:"fromUSD"`
	ToUSD     float64 `json:"toUSD"`
}

// Frontier finds the Pareto front of cost (equation 1) and makespan (equations 2 and 3) of m's plans within its
// limits, whatever its objective. It repeatedly searches the cheapest plan within a deadline (the box method of
// Hamacher, Pedersen and Ruzika, Finding representative systems for discrete bicriterion optimization problems,
// 2007): first half way between points, so that a partial front is evenly spread, then just before each point, which
// proves that no point is missing. The front of an infeasible model is empty and complete. Errors are those of
// [Solve].
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

// frontSearch is the state of one search for a front.
type frontSearch struct {
	ctx    context.Context
	model  Model // its objective and deadline change during the search
	frame  *compiled
	o      FrontierOptions
	m      *search.Meter
	points []*Solution
	boxes  []box2
	// rough means that the search for a point was cut short.
	rough bool
	work  int64
}

// box2 is the part of the plane between a fast and a slow point where points may be missing. Their makespan is
// greater than after and less than that of the slow point.
type box2 struct {
	fast, slow *Solution
	after      float64
	halved     int
}

func (b *box2) area() float64 {
	return (b.slow.Hours - b.after) * (b.fast.USD - b.slow.USD)
}

// halvings is the number of times that a box is split in the middle before it is searched from its slow end.
const halvings = 4

// minDistance is the minimum relative difference in makespan or cost between two separate points.
const minDistance = 1e-8

func (w *frontSearch) run(m *Model) (*Front, error) {
	fast, cheap, err := w.ends(m)
	if err != nil {
		return nil, err
	}
	if fast == nil {
		return &Front{Points: []Solution{}, Complete: true}, nil
	}
	w.points = append(w.points, fast)
	if cheap.USD < fast.USD*(1-minDistance) {
		w.points = append(w.points, cheap)
		w.push(box2{fast: fast, slow: cheap, after: fast.Hours})
	}
	for len(w.boxes) > 0 && !w.limitReached() {
		if err := w.search(w.largest()); err != nil {
			return nil, err
		}
	}
	return w.front(), nil
}

// limitReached reports whether a limit has been reached.
func (w *frontSearch) limitReached() bool {
	return w.o.MaxPoints > 0 && len(w.points) >= w.o.MaxPoints ||
		w.o.WorkLimit > 0 && w.work >= w.o.WorkLimit ||
		!w.m.Deadline.IsZero() && !w.m.Now().Before(w.m.Deadline)
}

// ends returns the ends of the front: the cheapest of the fastest plans and the fastest of the cheapest plans. They
// are nil if no plan satisfies the bounds.
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

// within returns the cheapest plan that takes at most the given hours, or nil if there is none.
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

// options returns the options of one solve: the remaining limits.
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

// search does one step in box b: it finds the cheapest plan within a deadline.
func (w *frontSearch) search(b box2) error {
	deadline, searched := b.slow.Hours*(1-minDistance), true
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
	case p == nil || p.USD >= b.fast.USD*(1-minDistance):
		// no plan within the deadline is cheaper than the fast point
	case p.USD <= b.slow.USD*(1+minDistance):
		// as cheap as the slow point, and faster: the slow point is not on the front
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

// replace replaces point old by p on the front and in the boxes that begin at it.
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
	if b.after < b.slow.Hours*(1-minDistance) && b.fast.USD > b.slow.USD*(1+minDistance) {
		w.boxes = append(w.boxes, b)
	}
}

// largest removes the box with the largest area from the list and returns it.
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

// front returns the points found, in order.
func (w *frontSearch) front() *Front {
	f := &Front{Points: []Solution{}, Complete: len(w.boxes) == 0 && !w.rough}
	slices.SortFunc(w.points, func(a, b *Solution) int {
		return cmp.Or(cmp.Compare(a.Hours, b.Hours), cmp.Compare(a.USD, b.USD))
	})
	for _, p := range w.points {
		if n := len(f.Points); n == 0 || p.USD < f.Points[n-1].USD*(1-minDistance) {
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
