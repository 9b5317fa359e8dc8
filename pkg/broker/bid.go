package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// worthTable is what an hour on spot is worth to a task.
type worthTable = bidding.Worth

// bid reacts to prices that have moved: it makes new bids for the plan in force, and says anew what each task is worth.
func (b *Broker) bid(u *unit, data events.Data) error {
	e, ok := data.(events.PriceMoved)
	if !ok {
		return unexpected(events.FnBid, data)
	}
	job, found, err := get[Job](u, jobKey(e.Job))
	if err != nil || !found {
		return orSkip(err)
	}
	if job.State != JobRunning || job.Plan.Version != e.Plan {
		return nil // over, or a newer plan is in force, with bids of its own
	}
	in := bidInput{job: job, restart: b.cfg.Restart, tick: b.cfg.TickEvery, now: u.now}
	if in.spec, err = u.spec(job); err != nil {
		return err
	}
	if in.plan, err = u.plan(job); err != nil {
		return err
	}
	keys := make([]store.Key, len(in.plan.Offers))
	for i := range keys {
		keys[i] = marketKey(marketID(in.plan.Offers[i].ID))
	}
	if err := u.preload(keys...); err != nil {
		return err
	}
	in.markets = make([]MarketRecord, len(keys))
	for i, key := range keys {
		if in.markets[i], _, err = get[MarketRecord](u, key); err != nil {
			return err
		}
	}
	if in.tasks, _, err = b.tasksNow(u, job.ID); err != nil {
		return err
	}
	bids, err := decideBids(u.ctx, in)
	if err != nil {
		return err
	}
	if job.Bids, err = b.keep(u, job.ID, "bids", e.Plan, bids); err != nil {
		return err
	}
	job.Waits = len(bids.Begin) > 0
	var d Decision
	d.put(jobKey(job.ID), job)
	return u.apply(d)
}

// bidInput is what bids are decided on.
type bidInput struct {
	job     Job
	spec    *dag.Job
	plan    *Plan
	markets []MarketRecord // by index of the plan's offers
	tasks   []Task         // that were ready, by index
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
func decideBids(ctx context.Context, in bidInput) (bids Bids, err error) {
	n := len(in.plan.Choice)
	bids = Bids{Plan: in.plan.Version, Table: make([]int32, n), USD: make([]float64, len(in.markets))}
	for i := range in.markets {
		bids.USD[i] = in.markets[i].USD
	}
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
	bids.Begin, bids.Begins, err = in.waits(ctx)
	return bids, err
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
	// A market's price is without the surcharge, so what it is compared with is too.
	usd := c.Offer.USDPerHour - c.SurchargeUSD
	if m.USD > 0 {
		usd = m.USD
	}
	return bidding.Live{
		Prices: &m.Prices, USD: usd, OnDemandUSD: other - c.SurchargeUSD, Work: work, Left: left,
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
