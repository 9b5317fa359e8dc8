package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	dearer := data.Dearer
	if data.After == "" {
		changed, err := b.takeAll(ctx, e.ID, data.Prices)
		if err != nil {
			return err
		}
		for _, offer := range slices.Sorted(maps.Keys(changed)) {
			// No more of a plan than all of it can be planned there.
			if share := changed[offer]; share >= b.cfg.Worse {
				dearer = append(dearer, events.MarketRise{Offer: offer, Share: share})
			}
		}
	}
	wake := map[string]bool{} // queues
	last, err := b.walk(ctx, events.FnTick, data.After, func(u *unit, w *walked) (int, error) {
		return b.watchJob(u, e.ID, w, dearer, wake)
	})
	var next []events.Data
	if last != "" {
		next = append(next, events.MarketTicked{After: last, Dearer: dearer})
	}
	return errors.Join(err, b.tellLater(ctx, events.FnTick, e.ID, wake, next...))
}

// takeAll takes in prices, asking for them where none were brought, and returns by what share each rose.
func (b *Broker) takeAll(
	ctx context.Context, cause string, prices []events.PriceTick,
) (changed map[string]float64, err error) {
	if len(prices) == 0 && b.Prices != nil {
		if prices, err = b.Prices.SpotPrices(ctx); err != nil {
			return nil, fmt.Errorf("%w: spot prices: %w", errAgain, err)
		}
	}
	changed = map[string]float64{}
	n := 0
	for part := range slices.Chunk(prices, unitFull) {
		err := b.transact(ctx, events.FnTick, fmt.Sprintf("%s/%d", cause, n), false, func(u *unit) error {
			return b.takePrices(u, part, changed)
		})
		if err != nil {
			return nil, err
		}
		n++
	}
	return changed, nil
}

func (b *Broker) takePrices(u *unit, prices []events.PriceTick, changed map[string]float64) error {
	for _, p := range prices {
		if !(p.USD > 0) {
			continue
		}
		m, _, err := get[MarketRecord](u, marketKey(p.Offer))
		if err != nil {
			return err
		}
		at := u.now
		if !p.Since.IsZero() && p.Since.Before(at) {
			at = p.Since
		}
		if m.USD == p.USD || at.Before(m.At) { // nothing new, or older than what is known
			continue
		}
		if m.USD > 0 {
			changed[p.Offer] = p.USD/m.USD - 1
		} else {
			changed[p.Offer] = 0
		}
		m.Offer, m.USD, m.At = p.Offer, p.USD, at
		m.Prices.Observe(at, p.USD)
		var d Decision
		d.put(marketKey(p.Offer), m)
		if err := u.apply(d); err != nil {
			return err
		}
	}
	return nil
}

// replanWorse asks for a plan of a job whose unstarted tasks are planned on a market that became dearer.
func (b *Broker) replanWorse(ctx context.Context, cause, id string, dearer []events.MarketRise) error {
	changed := make(map[string]float64, len(dearer))
	for _, r := range dearer {
		changed[r.Offer] = r.Share
	}
	return b.transact(ctx, events.FnTick, cause+"/"+id, false, func(u *unit) error {
		job, found, err := get[Job](u, jobKey(id))
		if err != nil || !found || job.State != JobRunning || job.Plan.IsZero() {
			return orSkip(err)
		}
		plan, err := b.plan(ctx, job)
		if err != nil {
			return err
		}
		progress, _, err := get[Progress](u, progressKey(id))
		if err != nil {
			return err
		}
		if offer, share := worse(progress, plan, changed); share >= b.cfg.Worse {
			var d Decision
			d.replan(job, fmt.Sprintf("%s is %.0f%% dearer", offer, 100*share))
			return u.apply(d)
		}
		return errSkip
	})
}

// worse returns the offer by which the unstarted part of a plan became dearer the most, and by what share
// of the plan's cost.
func worse(progress Progress, plan *Plan, changed map[string]float64) (offer string, share float64) {
	byOffer := map[int32]float64{}
	for i, c := range plan.Choice {
		if c >= 0 && progress.Phases[i] == PhaseWaiting && plan.Offers[c].Offer.Spot {
			byOffer[c] += plan.TaskUSD[i]
		}
	}
	for c := range plan.Offers {
		id := marketID(plan.Offers[c].ID)
		rise, ok := changed[id]
		if !ok || plan.USD <= 0 {
			continue
		}
		if s := byOffer[int32(c)] * rise / plan.USD; s > share { //nolint:gosec // an index of a slice whose indexes are int32
			offer, share = id, s
		}
	}
	return offer, share
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
