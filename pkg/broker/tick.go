package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
)

// tick takes in new spot prices, asks for a new plan where the one in force is now worse by more than
// the threshold, and leaves the spot machines that are no longer worth it or that the deadline no longer allows.
func (b *Broker) tick(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.MarketTicked)
	if !ok {
		return unexpected(events.FnTick, e.Data)
	}
	changed := data.Changed
	if data.After == "" {
		var err error
		if changed, err = b.takeAll(ctx, e.ID, data.Prices); err != nil {
			return err
		}
	}
	prices := make(map[string]events.MarketChange, len(changed)) // by offer
	for _, c := range changed {
		prices[c.Offer] = c
	}
	wake := map[string]bool{} // queues
	last, err := b.walk(ctx, events.FnTick, data.After, func(u *unit, w *walked) (int, error) {
		return b.watchJob(u, e.ID, w, prices, wake)
	})
	var next []events.Data
	if last != "" {
		next = append(next, events.MarketTicked{After: last, Changed: changed})
	}
	return errors.Join(err, b.tellLater(ctx, events.FnTick, e.ID, wake, next...))
}

// takeAll takes in prices, asking for them where none were brought, and returns those that changed.
func (b *Broker) takeAll(
	ctx context.Context, cause string, prices []events.PriceTick,
) (changed []events.MarketChange, err error) {
	if len(prices) == 0 && b.Prices != nil {
		if prices, err = b.Prices.SpotPrices(ctx); err != nil {
			return nil, fmt.Errorf("%w: spot prices: %w", errAgain, err)
		}
	}
	n := 0
	for part := range slices.Chunk(prices, unitFull) {
		var of []events.MarketChange
		err := b.transact(ctx, events.FnTick, fmt.Sprintf("%s/%d", cause, n), false, func(u *unit) (err error) {
			of, err = b.takePrices(u, part)
			return err
		})
		if err != nil {
			return nil, err
		}
		changed = append(changed, of...)
		n++
	}
	return changed, nil
}

// takePrices takes in some prices and returns those that changed.
func (b *Broker) takePrices(u *unit, prices []events.PriceTick) (changed []events.MarketChange, err error) {
	for _, p := range prices {
		if !(p.USD > 0) {
			continue
		}
		m, _, err := get[MarketRecord](u, marketKey(p.Offer))
		if err != nil {
			return nil, err
		}
		at := u.now
		if !p.Since.IsZero() && p.Since.Before(at) {
			at = p.Since
		}
		if m.USD == p.USD || at.Before(m.At) { // nothing new, or older than what is known
			continue
		}
		c := events.MarketChange{Offer: p.Offer, USD: p.USD}
		if m.USD > 0 {
			c.Share = p.USD/m.USD - 1
		}
		changed = append(changed, c)
		m.Offer, m.USD, m.At = p.Offer, p.USD, at
		m.Prices.Observe(at, p.USD)
		var d Decision
		d.put(marketKey(p.Offer), m)
		if err := u.apply(d); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// lookAtPlan asks for a plan of a job whose unstarted tasks are planned on a market that became dearer, and for bids where
// a price is no more what they were made on.
func (b *Broker) lookAtPlan(ctx context.Context, cause, id string, changed map[string]events.MarketChange) error {
	return b.transact(ctx, events.FnTick, cause+"/"+id, false, func(u *unit) error {
		job, found, err := get[Job](u, jobKey(id))
		if err != nil || !found || job.State != JobRunning || job.Plan.IsZero() {
			return orSkip(err)
		}
		plan, err := u.plan(job)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(plan.Offers, func(p Planned) bool { return changed[marketID(p.ID)].USD > 0 }) {
			return errSkip
		}
		progress, _, err := get[Progress](u, progressKey(id))
		if err != nil {
			return err
		}
		var d Decision
		if offer, share := worse(progress, plan, changed); share >= b.cfg.Worse {
			d.replan(job, fmt.Sprintf("%s is %.0f%% dearer", offer, 100*share))
			return u.apply(d)
		}
		bids, err := u.bids(job)
		if err != nil {
			return err
		}
		moved, share := bids.moved(progress, plan, changed)
		if share >= b.cfg.Worse && (len(bids.Tables) > 0 || !job.Deadline.IsZero()) {
			moved.Job, moved.Plan = id, job.Plan.Version
			d.emit(moved)
			return u.apply(d)
		}
		return errSkip
	})
}

// worse returns the offer by which the unstarted part of a plan became dearer the most, and by what share
// of the plan's cost.
func worse(progress Progress, plan *Plan, changed map[string]events.MarketChange) (offer string, share float64) {
	byOffer := map[int32]float64{}
	for i, c := range plan.Choice {
		if c >= 0 && progress.Phases[i] == PhaseWaiting && plan.Offers[c].Offer.Spot {
			byOffer[c] += plan.TaskUSD[i]
		}
	}
	for c := range plan.Offers {
		id := marketID(plan.Offers[c].ID)
		if plan.USD <= 0 {
			continue
		}
		if s := byOffer[int32(c)] * changed[id].Share / plan.USD; s > share { //nolint:gosec // an index of a slice whose indexes are int32
			offer, share = id, s
		}
	}
	return offer, share
}

// moved returns the price that differs the most from what the bids were made on, of the markets of tasks that are not done, and by what share.
func (bids *Bids) moved(progress Progress, plan *Plan, changed map[string]events.MarketChange) (most events.PriceMoved, share float64) {
	for i, c := range plan.Choice {
		if c < 0 || int(c) >= len(bids.USD) || progress.Phases[i] == PhaseSucceeded || progress.Phases[i] == PhaseFailed {
			continue
		}
		id, from := marketID(plan.Offers[c].ID), bids.USD[c]
		if usd := changed[id].USD; usd > 0 && math.Abs(usd-from) > share*from {
			most, share = events.PriceMoved{Offer: id, USD: usd, FromUSD: from}, math.Abs(usd-from)/max(from, centsEps)
		}
	}
	return most, share
}

// refresh loads the catalogue anew, where the host can.
func (b *Broker) refresh(ctx context.Context, e events.Event) error {
	if _, ok := e.Data.(events.CatalogRefresh); !ok {
		return unexpected(events.FnRefresh, e.Data)
	}
	if b.Refresh == nil {
		return nil
	}
	if err := b.Refresh(ctx); err != nil {
		return fmt.Errorf("%w: refresh the catalogue: %w", errAgain, err)
	}
	return nil
}

// hook passes news on to people.
func (b *Broker) hook(ctx context.Context, e events.Event) error {
	if b.Hook == nil {
		return nil
	}
	if err := b.Hook.Notify(ctx, e); err != nil {
		return fmt.Errorf("%w: notify: %w", errAgain, err)
	}
	return nil
}
