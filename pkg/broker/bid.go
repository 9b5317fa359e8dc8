package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// worthTable is what an hour on spot is worth to a task.
type worthTable = bidding.Worth

// bid decides for each task of a plan the most to pay and when to stop relying on spot.
func (b *Broker) bid(u *unit, data events.Data) error {
	e, ok := data.(events.DAGPlanned)
	if !ok {
		return unexpected(events.FnBid, data)
	}
	job, found, err := get[Job](u, jobKey(e.Job))
	if err != nil || !found {
		return orSkip(err)
	}
	if job.Plan.Version != e.Plan || job.Bids.Version >= e.Plan {
		return nil // a newer plan is in force
	}
	spec, err := u.spec(job)
	if err != nil {
		return err
	}
	plan, err := u.plan(job)
	if err != nil {
		return err
	}
	markets := make([]MarketRecord, len(plan.Offers))
	for i := range plan.Offers {
		if !plan.Offers[i].Offer.Spot && job.Deadline.IsZero() {
			continue // nothing waits for what spot costs there
		}
		if markets[i], _, err = get[MarketRecord](u, marketKey(marketID(plan.Offers[i].ID))); err != nil {
			return err
		}
	}
	in := bidInput{job: job, spec: spec, plan: plan, markets: markets, restart: b.cfg.Restart, tick: b.cfg.TickEvery, now: u.now}
	bids, err := decideBids(u.ctx, in)
	if err != nil {
		return err
	}
	tasks := sync.OnceValues(func() ([]Task, error) { return list[Task](u, jobPart(job.ID), "task#", 0) })
	bids.Begin, bids.Begins, err = in.waits(u.ctx, func(i int) (t Task, err error) {
		all, err := tasks()
		if at, ok := slices.BinarySearchFunc(all, i, func(t Task, i int) int { return t.Index - i }); ok {
			t = all[at]
		}
		return t, err
	})
	if err != nil {
		return err
	}
	p, err := b.pack(job.ID, "bids", e.Plan, shortHash(u.cause), bids)
	if err != nil {
		return err
	}
	if err := p.save(u.ctx, b.store, u); err != nil {
		return err
	}
	job.Bids, job.Waits = p.Blob, len(bids.Begin) > 0
	var d Decision
	d.put(jobKey(job.ID), job)
	d.emit(events.DAGBid{Job: job.ID, Plan: e.Plan})
	return u.apply(d)
}

// bidInput is what bids are decided on.
type bidInput struct {
	job     Job
	spec    *dag.Job
	plan    *Plan
	markets []MarketRecord // by index of the plan's offers
	restart time.Duration
	tick    time.Duration
	now     time.Time
}

// tablesMost bounds the tables of a job: tasks beyond go by the deadline alone.
const tablesMost = 32

// undatedStretch is how many times its work a task without a deadline is given in its table.
const undatedStretch = 3.0

// decideBids bids the on-demand price for each spot task: at that price a cloud takes a machine only because it
// needs it, and a lower bid would be taken without the notice that leaving gives. When spot is no longer worth its price says the table of the task,
// which goes by the work and the time that are left (WCSSI, equation 8, with on-demand as the other way); when it has to be left for the
// deadline follows from FinishBy.
func decideBids(ctx context.Context, in bidInput) (Bids, error) {
	n := len(in.plan.Choice)
	bids := Bids{Plan: in.plan.Version, MaxUSD: make([]float64, n), Table: make([]int32, n)}
	if !in.job.Deadline.IsZero() {
		bids.FinishBy = finishBy(in.job, in.spec, in.plan)
	}
	known := map[string]int32{}
	for i := range n {
		bids.Table[i] = -1
		c := in.plan.Of(i)
		if c == nil || !c.Offer.Spot {
			continue
		}
		bids.MaxUSD[i] = c.OnDemandUSD
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
				return bids, fmt.Errorf("broker: table of task %s: %w", in.spec.Tasks[i].Name, err)
			}
			at = int32(len(bids.Tables)) //nolint:gosec // at most tablesMost
			known[key], bids.Tables = at, append(bids.Tables, t)
		}
		bids.Table[i] = at
	}
	return bids, nil
}

// live is what the table of a spot task is made of; ok is false for one that has no other way, or nothing to choose by.
func (in *bidInput) live(i int, by []time.Time) (l bidding.Live, ok bool) {
	t, c := &in.spec.Tasks[i], in.plan.Of(i)
	work := hours(t.Time.For(c.Offer.InstanceType, c.Offer.Accelerator, c.Offer.AccelCount))
	if work <= 0 || !(c.Offer.USDPerHour > 0) || !(c.OnDemandUSD > 0) || !onDemandAllowed(t) || t.Checkpoint == nil && !t.StandIn() {
		return l, false
	}
	left := work * undatedStretch
	if by != nil {
		left = max(hours(by[i].Sub(in.now)), work)
	}
	lost := work
	if t.Checkpoint != nil && t.Checkpoint.Every > 0 {
		lost = min(hours(t.Checkpoint.Every), work)
	}
	// The other way is on-demand where that is cheapest, which need not be here.
	other := c.OnDemandUSD
	if i < len(in.plan.TaskOnDemandUSD) && in.plan.TaskOnDemandUSD[i] > 0 {
		other = in.plan.TaskOnDemandUSD[i]
	}
	m := in.markets[in.plan.Choice[i]]
	usd := c.Offer.USDPerHour
	if m.USD > 0 {
		usd = m.USD
	}
	return bidding.Live{
		Prices: &m.Prices, USD: usd, OnDemandUSD: other, Work: work, Left: left,
		LossesPerHour: c.LossesPerHour * float64(max(t.Nodes, 1)), Restart: hours(in.restart) + lost/2,
	}, true
}

// finishBy walks the DAG from its sinks: a task has to be done by the earliest latest start of its children.
func finishBy(job Job, spec *dag.Job, plan *Plan) []time.Time {
	by := make([]time.Time, len(plan.Choice))
	g := spec.Graph()
	order := spec.Order()
	for n := len(order) - 1; n >= 0; n-- {
		i := order[n]
		by[i] = job.Deadline
		for _, c := range g.Children(i) {
			if start := by[c].Add(-duration(plan.TaskHours[c])); start.Before(by[i]) {
				by[i] = start
			}
		}
	}
	return by
}
