package planner

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// ErrInfeasible says that a job cannot be planned at all.
var ErrInfeasible = errors.New("infeasible")

// candidates annotates the offers of a class with what a task costs and takes there.
func (b *builder) candidates(i int, c *class, gib float64) (optimizer.Task, []option) {
	t := &b.in.Spec.Tasks[i]
	nodes := float64(max(t.Nodes, 1))
	task := optimizer.Task{ID: t.Name, Candidates: make([]optimizer.Candidate, 0, len(c.matches))}
	options := make([]option, 0, len(c.matches))
	baseline := math.Inf(1)
	onDemand := false // has left spot for good
	if f := b.in.Tasks[i]; f != nil && f.OnDemand {
		onDemand = slices.ContainsFunc(c.matches, func(m *match) bool { return m.Market == catalog.OnDemand })
	}
	for _, m := range c.matches {
		if onDemand && m.Market == catalog.Spot {
			continue
		}
		work := b.work(i, m)
		if m.Market == catalog.OnDemand {
			baseline = math.Min(baseline, work*m.usd*nodes)
		}
		cand, o, ok := b.annotate(t, m, work, nodes)
		if !ok {
			continue
		}
		task.Candidates = append(task.Candidates, cand)
		options = append(options, o)
	}
	if !math.IsInf(baseline, 1) {
		for k := range options {
			if o := &options[k]; o.match.Market == catalog.Spot && o.work > 0 {
				o.elseUSD = baseline / (o.work * nodes)
			}
		}
	}
	task, options = b.emit(task, options, nodes)
	return b.prune(task, options, gib)
}

// work is how long what is left of a task takes on a machine without interruptions, in hours.
func (b *builder) work(i int, m *match) float64 {
	whole := b.in.Spec.Tasks[i].Time.For(m.InstanceType, m.Accelerator, m.AcceleratorCount).Hours()
	if f := b.in.Tasks[i]; f != nil {
		whole *= 1 - f.Progress
	}
	return whole
}

func (b *builder) annotate(t *dag.Task, m *match, work, nodes float64) (optimizer.Candidate, option, bool) {
	cand := optimizer.Candidate{ID: m.id, Place: m.place, USD: work * m.usd * nodes, Hours: work}
	o := option{match: m, usd: cand.USD, expected: work, work: work}
	if m.Market != catalog.Spot {
		return cand, o, true
	}
	q, usd, ok := b.spotQuote(t, m, work)
	if !ok {
		return cand, o, false
	}
	cand.USD, cand.Hours = q.Held*usd*nodes, q.Hours
	o.usd, o.expected = cand.USD, q.Hours
	if b.in.DeadlineHours != nil {
		cand.Hours = math.Max(q.Hours, q.Guaranteed) // it must still be on time when it is taken at the worst moment
	}
	return cand, o, true
}

// prune leaves out candidates that another one beats by more than any difference in moving the task's data
// could make up for, in money and in time, and that emit no less where that counts. They can be in no best plan.
func (b *builder) prune(task optimizer.Task, options []option, gib float64) (optimizer.Task, []option) {
	if len(task.Candidates) == 0 {
		return task, options
	}
	// The cheapest few stay all the same: they are the runners-up that explanations name.
	order := make([]int, len(task.Candidates))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := task.Candidates[x], task.Candidates[y]
		return cmp.Or(cmp.Compare(a.USD, b.USD), cmp.Compare(a.Hours, b.Hours))
	})
	// The one that most others can be compared with: the cheapest, or of the cleanest the cheapest.
	best := &task.Candidates[order[0]]
	for _, k := range order {
		if c := &task.Candidates[k]; b.countsCarbon() && c.KgCO2 < best.KgCO2 {
			best = c
		}
	}
	slackUSD, slackHours := gib*b.dearest, gib*b.slowest
	timed := b.timed()
	kept, keptOptions := task.Candidates[:0], options[:0]
	keep := make([]bool, len(order))
	for n, k := range order {
		c := &task.Candidates[k]
		keep[k] = n <= runnersKept || c.USD <= best.USD+slackUSD || timed && c.Hours < best.Hours+slackHours
	}
	for k, c := range task.Candidates {
		if keep[k] {
			kept, keptOptions = append(kept, c), append(keptOptions, options[k])
		}
	}
	task.Candidates = kept
	return task, keptOptions
}
