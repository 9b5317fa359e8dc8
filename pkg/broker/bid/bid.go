package bid

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Input is what bids are decided on.
type Input struct {
	Job     record.Job
	Spec    *dag.Job
	Plan    *record.Plan
	Markets []record.MarketRecord // by index of the plan's offers
	Tasks   []record.Task         // that were ready, by index
	Restart time.Duration
	Tick    time.Duration
	Now     time.Time
}

// tablesMost bounds the tables of a job: tasks beyond go by the deadline alone.
const tablesMost = 32

// Decide bids the on-demand price for each spot task: at that price a cloud takes a machine only because it
// needs it, and a lower bid would be taken without the notice that leaving gives. When spot is no longer worth its
// price says the table of the task, which goes by the work and the time that are left (WCSSI, equation 8, with
// on-demand as the other way); when it has to be left for the deadline follows from FinishBy.
func Decide(ctx context.Context, in Input) (bids record.Bids, err error) {
	n := len(in.Plan.Choice)
	bids = record.Bids{Plan: in.Plan.Version, Table: make([]int32, n), USD: make([]float64, len(in.Markets))}
	for i := range in.Markets {
		bids.USD[i] = in.Markets[i].USD
	}
	if !in.Job.Deadline.IsZero() {
		bids.FinishBy = finishBy(in.Job, in.Spec, in.Plan)
	}
	known := map[string]int32{}
	for i := range n {
		bids.Table[i] = -1
		c := in.Plan.Of(i)
		if c == nil || !c.Offer.Spot {
			continue
		}
		live, ok := in.live(i, bids.FinishBy)
		if !ok {
			continue
		}
		// A table is good for all whose work and time are alike to two digits.
		key := fmt.Sprintf("%s %.2g %.2g %.2g", c.ID, live.Work, live.Left, live.Restart)
		at, have := known[key]
		if !have {
			if len(bids.Tables) == tablesMost {
				continue
			}
			t, err := bidding.NewWorth(ctx, live)
			if err != nil {
				return bids, fmt.Errorf("broker: table of task %s: %w", in.Spec.Tasks[i].Name, err)
			}
			at = int32(len(bids.Tables)) //nolint:gosec // at most tablesMost
			known[key], bids.Tables = at, append(bids.Tables, t)
		}
		bids.Table[i] = at
	}
	bids.Begin, bids.Begins, err = in.Waits(ctx)
	return bids, err
}

// live is what the table of a spot task is made of; ok is false for one that has no other way, or nothing to choose by.
func (in *Input) live(i int, by []time.Time) (l bidding.Live, ok bool) {
	t, c := &in.Spec.Tasks[i], in.Plan.Of(i)
	work := record.Hours(t.Time.For(c.Offer.InstanceType, c.Offer.Accelerator, c.Offer.AccelCount))
	if work <= 0 || !(c.Offer.USDPerHour > 0) || !(c.OnDemandUSD > 0) || !record.OnDemandAllowed(t) ||
		t.Checkpoint == nil && !t.StandIn() {
		return l, false
	}
	left := work * record.UndatedStretch
	if by != nil {
		left = max(record.Hours(by[i].Sub(in.Now)), work)
	}
	lost := work
	if t.Checkpoint != nil && t.Checkpoint.Every > 0 {
		lost = min(record.Hours(t.Checkpoint.Every), work)
	}
	// The other way is on-demand where that is cheapest, which need not be here.
	other := c.OnDemandUSD
	if i < len(in.Plan.TaskOnDemandUSD) && in.Plan.TaskOnDemandUSD[i] > 0 {
		other = in.Plan.TaskOnDemandUSD[i]
	}
	m := in.Markets[in.Plan.Choice[i]]
	// A market's price is without the surcharge, so what it is compared with is too.
	usd := c.Offer.USDPerHour - c.SurchargeUSD
	if m.USD > 0 {
		usd = m.USD
	}
	return bidding.Live{
		Prices: &m.Prices, USD: usd, OnDemandUSD: other - c.SurchargeUSD, Work: work, Left: left,
		LossesPerHour: c.LossesPerHour * float64(max(t.Nodes, 1)), Restart: record.Hours(in.Restart) + lost/2,
	}, true
}

// finishBy walks the DAG from its sinks: a task has to be done by the earliest latest start of its children.
func finishBy(job record.Job, spec *dag.Job, plan *record.Plan) []time.Time {
	by := make([]time.Time, len(plan.Choice))
	g := spec.Graph()
	order := spec.Order()
	for n := len(order) - 1; n >= 0; n-- {
		i := order[n]
		by[i] = job.Deadline
		for _, c := range g.Children(i) {
			if start := by[c].Add(-record.Duration(plan.TaskHours[c])); start.Before(by[i]) {
				by[i] = start
			}
		}
	}
	return by
}
