package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/topk"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// ErrInfeasible means that a job cannot be planned at all.
var ErrInfeasible = errors.New("infeasible")

// candidates returns the offers of a class with a task's cost and time on each. If emissions count, it excludes
// offers on grids with unknown emissions.
func (b *builder) candidates(i int, c *class, gib float64) []option {
	t := &b.in.Spec.Tasks[i]
	counts := b.counts(i)
	options := slices.Grow(b.scratch[:0], len(c.matches)*len(counts))
	for _, nodes := range counts {
		options = b.addOptions(options, i, c, nodes)
	}
	for k := range options {
		b.addOutputCost(t, &options[k])
		b.setLocation(i, &options[k])
	}
	b.scratch = options
	options = b.withoutConflicts(i, options)
	if b.near[i] != "" || b.spread[i] {
		return b.pruneTogether(options, gib)
	}
	return b.prune(options, gib)
}

// counts returns the numbers of machines that a plan may choose for a task. A task that has saved its progress keeps
// its number, because most programs read only checkpoints of the same number of machines.
func (b *builder) counts(i int) []int {
	t := &b.in.Spec.Tasks[i]
	if f := b.in.Tasks[i]; t.MaxNodes > 0 && f != nil && f.Progress > 0 && b.in.Previous != nil {
		if c := b.in.Previous.Of(i); c != nil {
			return []int{record.NodesOn(t, c)}
		}
	}
	return t.NodeCounts()
}

// addOptions adds the options of a task with a number of machines.
func (b *builder) addOptions(options []option, i int, c *class, nodes int) []option {
	first, baseline := len(options), math.Inf(1)
	mayLeave := b.mayLeaveSpot(i, c)
	for _, m := range c.matches {
		if m.Market == catalog.Spot && mayLeave && b.in.Tasks[i].LeavesSpot(b.wholeWork(i, m, nodes)) {
			continue
		}
		if m.reserved != nil && !b.reserved.allows(i, nodes, m) {
			continue
		}
		o, ok := b.annotate(i, m, nodes)
		if m.Market == catalog.OnDemand && m.reserved == nil {
			baseline = math.Min(baseline, o.USD)
		}
		if ok && (m.kg > 0 || !b.countsCarbon()) {
			options = append(options, o)
		}
	}
	for k := range options[first:] {
		if o := &options[first+k]; o.match.Market == catalog.Spot && o.work > 0 && !math.IsInf(baseline, 1) {
			o.elseUSD = baseline / (o.work * float64(nodes))
		}
	}
	return options
}

// work returns the time of the rest of a task on a number of machines without interruptions, in hours.
func (b *builder) work(i int, m *match, nodes int) float64 {
	whole := b.wholeWork(i, m, nodes)
	if f := b.in.Tasks[i]; f != nil {
		whole *= 1 - f.Progress
	}
	return whole
}

// mayLeaveSpot reports whether a task has a reason to leave spot machines, and there is an offer on demand.
func (b *builder) mayLeaveSpot(i int, c *class) bool {
	f := b.in.Tasks[i]
	return f != nil && (f.OnDemand || f.LostHours > 0) &&
		slices.ContainsFunc(c.matches, func(m *match) bool { return m.Market == catalog.OnDemand })
}

// wholeWork returns the time of a whole task on a number of machines without interruptions, in hours.
func (b *builder) wholeWork(i int, m *match, nodes int) float64 {
	t := &b.in.Spec.Tasks[i]
	return t.TimeOn(m.InstanceType, m.Accelerator, m.AcceleratorCount, m.Speed, nodes).Hours()
}

// slowWork returns the time of the rest of a task by the slow side of the estimates, in hours. A time that was
// measured or learned on this machine has no slow side.
func (b *builder) slowWork(i int, m *match, work float64) float64 {
	t := &b.in.Spec.Tasks[i]
	if _, known := t.Time.On[m.InstanceType]; known || m.Accelerator != "" || !(m.SlowSpeed > 0) ||
		t.Time.Speed == m.Speed || t.Time.Speed == 0 && m.Speed == 1 {
		return work
	}
	return work * m.Speed / m.SlowSpeed
}

// annotate returns the option for a match: its cost, with the boot and the cloud's billing minimum, and its time.
// With a deadline, the model's time is the guaranteed one: with a slow boot, the slow side of the machine's speed,
// and an interruption at the worst moment. ok is false if the task would be interrupted too often to finish.
func (b *builder) annotate(i int, m *match, nodes int) (o option, ok bool) {
	t, work, boot := &b.in.Spec.Tasks[i], b.work(i, m, nodes), m.bootHours()
	held, usd, guaranteed := work, m.usd, b.slowWork(i, m, work)
	o = option{match: m, nodes: nodes, expected: boot + work, work: work,
		Candidate: optimizer.Candidate{ID: m.id, Place: m.place}}
	if t.MaxNodes > 0 {
		o.ID = fmt.Sprintf("%s × %d", m.id, nodes)
	}
	if m.Market == catalog.Spot {
		q, mean, ok := b.spotQuote(t, m, work, nodes)
		if !ok {
			return o, false
		}
		worst := q
		if guaranteed > work && b.in.DeadlineHours != nil {
			if worst, _, ok = b.spotQuote(t, m, guaranteed, nodes); !ok {
				return o, false
			}
		}
		held, usd, o.expected = q.Held, mean, boot+q.Hours
		guaranteed = math.Max(q.Hours, worst.Guaranteed)
	}
	o.USD = m.billedHours(held) * usd * float64(nodes)
	if o.Hours = o.expected; b.in.DeadlineHours != nil {
		o.Hours = max(boot, m.SlowBootSeconds/secondsPerHour) + guaranteed
	}
	o.KgCO2 = o.expected * float64(nodes) * m.kg
	return o, true
}

const secondsPerHour = 3600

// bootHours returns the expected time from the request of the machine to the start of its work, in hours.
func (m *match) bootHours() float64 { return m.BootSeconds / secondsPerHour }

// billedHours returns the hours that the cloud bills for a machine that is held for some hours after its boot.
func (m *match) billedHours(held float64) float64 {
	if record.BillsStart(string(m.Service)) {
		held += m.bootHours()
	}
	return hardware.BillingOf(m.Cloud).BilledHours(held)
}

// prune removes candidates that cannot be in an optimal plan. Another candidate is better in money and in time by
// more than moving the task's data could cost, and in emissions if they count.
func (b *builder) prune(options []option, gib float64) []option {
	if len(options) == 0 {
		return nil
	}
	// The cheapest few candidates are always kept, because explanations name them as runners-up.
	var cheapest []*option
	for k := range options {
		cheapest = topk.Insert(cheapest, &options[k], runnersKept+1, cheaper)
	}
	// Candidates are compared with the cheapest one. If emissions count, they are compared with the cleanest, and of
	// equally clean ones with the cheapest.
	best := cheapest[0]
	for k := range options {
		o := &options[k]
		if b.countsCarbon() && (o.KgCO2 < best.KgCO2 || o.KgCO2 == best.KgCO2 && cheaper(o, best) < 0) {
			best = o
		}
	}
	mostUSD, mostHours := best.USD+gib*b.dearest, best.Hours+gib*b.slowest
	stays := func(o *option) bool {
		return o.USD <= mostUSD || b.timed() && o.Hours < mostHours || slices.Contains(cheapest, o)
	}
	n := 0
	for k := range options {
		if stays(&options[k]) {
			n++
		}
	}
	kept := make([]option, 0, n) // exactly as large as needed, because there is one list for each task
	for k := range options {
		if stays(&options[k]) {
			kept = append(kept, options[k])
		}
	}
	return kept
}

// cheaper compares options by cost, and then by time.
func cheaper(x, y *option) int {
	return cmp.Or(cmp.Compare(x.USD, y.USD), cmp.Compare(x.Hours, y.Hours))
}

// priceSteps is the number of steps into which a run is divided to follow its spot price.
const priceSteps = 24

// defaultCheckpoint is the assumed interval of a task that saves checkpoints without stating an interval.
const defaultCheckpoint = 15 * time.Minute

// checkpointHours returns the interval at which a task saves its work, in hours; 0 if it does not.
func checkpointHours(t *dag.Task) float64 {
	switch {
	case !t.Resumes():
		return 0
	case t.Checkpoint != nil && t.Checkpoint.Every > 0:
		return t.Checkpoint.Every.Hours()
	}
	return defaultCheckpoint.Hours()
}

// spotQuote returns the expected time of a task's work on a spot offer, including interruptions, and the mean price
// over that time by the market's Markov chain, in USD per hour.
func (b *builder) spotQuote(t *dag.Task, m *match, work float64, nodes int) (q bidding.Quote, usd float64, ok bool) {
	run := bidding.Run{
		Hours: work, RestartHours: b.p.opt.Restart.Hours(), PreemptionsPerHour: m.rate, Nodes: nodes,
		ReactHours: b.p.opt.TickEvery.Hours(),
	}
	run.CheckpointHours = checkpointHours(t)
	if q, ok = bidding.Spot(run); !ok {
		return q, 0, false
	}
	return q, b.meanUSD(m, q.Held), true
}

// meanUSD returns the mean price of a spot offer over the next hours, in USD per hour. Without an observed price
// change it is the current price.
func (b *builder) meanUSD(m *match, hours float64) float64 {
	rec := m.changes
	if rec == nil || !(hours > 0) || !(rec.USD > 0) {
		return m.usd
	}
	chain := rec.Prices.Chain(hours/priceSteps, rec.USD, m.OnDemandUSD)
	mean := chain.MeanAhead(chain.Level(rec.USD, 0), priceSteps, math.Max(m.OnDemandUSD, rec.USD))
	// The chain has only the mean price of each level, so the result is scaled to start from the current price.
	return mean/chain.USD[chain.Level(rec.USD, 0)]*rec.USD + m.SurchargeUSD
}
