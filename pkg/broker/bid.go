package broker

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

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
	spec, err := b.spec(u.ctx, job)
	if err != nil {
		return err
	}
	plan, err := b.plan(u.ctx, job)
	if err != nil {
		return err
	}
	bids := decideBids(job, spec, plan)
	p, err := b.pack(job.ID, "bids", e.Plan, shortHash(u.cause), bids)
	if err != nil {
		return err
	}
	if err := p.save(u.ctx, b.store, u); err != nil {
		return err
	}
	job.Bids = p.Blob
	var d Decision
	d.put(jobKey(job.ID), job)
	d.emit(events.DAGBid{Job: job.ID, Plan: e.Plan})
	return u.apply(d)
}

// decideBids bids the on-demand price for each spot task: a spot machine is never worth more, and a
// lower bid is taken away earlier. The latest moment to leave spot is when the work that is left, done on demand, just
// meets the deadline.
func decideBids(job Job, spec *dag.Job, plan *Plan) Bids {
	bids := Bids{Plan: plan.Version, MaxUSD: make([]float64, len(plan.Choice))}
	for i := range plan.Choice {
		if c := plan.Of(i); c != nil && c.Offer.Spot {
			bids.MaxUSD[i] = c.OnDemandUSD
		}
	}
	if !job.Deadline.IsZero() {
		bids.Latest = latestStarts(job, spec, plan)
	}
	return bids
}

// latestStarts walks the DAG from its sinks: a task must start by the earliest latest start of its
// children less its own time.
func latestStarts(job Job, spec *dag.Job, plan *Plan) []time.Time {
	latest := make([]time.Time, len(plan.Choice))
	g := spec.Graph()
	order := spec.Order()
	for n := len(order) - 1; n >= 0; n-- {
		i := order[n]
		finish := job.Deadline
		for _, c := range g.Children(i) {
			if latest[c].Before(finish) {
				finish = latest[c]
			}
		}
		latest[i] = finish.Add(-duration(plan.TaskHours[i]))
	}
	return latest
}
