package optimizer

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"
)

// frontWays is the maximum number of site choices that a front considers: the cheapest by their bounds. If there are
// more, the front is not complete.
const frontWays = 16

// frontierTogether is [Frontier] for a model with groups. It merges the fronts of several site choices.
func frontierTogether(ctx context.Context, m *Model, o FrontierOptions) (*Front, error) {
	cheapest := *m
	cheapest.Objective = Cost
	meter := newMeter(ctx, Options{Now: o.Now})
	t, none, err := newTogether(&cheapest, meter)
	if err != nil {
		return nil, err
	}
	all := &Front{Points: []Solution{}, Complete: true}
	if none != nil {
		return all, nil
	}
	var ways []way
	for t.push(make([]int, len(t.groups))); t.open.Len() > 0 && len(ways) < frontWays; {
		w := heap.Pop(&t.open).(way) //nolint:forcetypeassert // only ways are pushed
		ways = append(ways, w)
		t.branch(w.at)
	}
	all.Complete = t.open.Len() == 0
	each := o
	n := len(ways)
	each.WorkLimit = (o.WorkLimit + int64(n) - 1) / int64(n)
	each.TimeLimit = (o.TimeLimit + time.Duration(n) - 1) / time.Duration(n)
	for _, w := range ways {
		sited, left := t.within(w.at)
		sited.Objective = m.Objective
		front, err := Frontier(ctx, sited, each)
		if err != nil {
			return nil, err
		}
		for i := range front.Points {
			restore(front.Points[i].Picks, left)
		}
		all.Points = append(all.Points, front.Points...)
		all.Complete = all.Complete && front.Complete
	}
	all.dropDominated(o.MaxPoints)
	all.Millis = meter.Millis()
	return all, nil
}

// dropDominated removes dominated points, and then keeps at most the given number of points, spread over the front.
func (f *Front) dropDominated(most int) {
	slices.SortFunc(f.Points, func(a, b Solution) int {
		return cmp.Or(cmp.Compare(a.Hours, b.Hours), cmp.Compare(a.USD, b.USD))
	})
	var kept []Solution
	for _, p := range f.Points {
		if n := len(kept); n == 0 || p.USD < kept[n-1].USD*(1-minDistance) {
			kept = append(kept, p)
		}
	}
	if most > 0 && len(kept) > most {
		f.Complete = false
		spread := make([]Solution, 0, most)
		for i := range most {
			spread = append(spread, kept[i*(len(kept)-1)/max(most-1, 1)])
		}
		kept = spread
	}
	f.Points = append([]Solution{}, kept...)
}
