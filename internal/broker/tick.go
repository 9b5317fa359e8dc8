package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// tick records new spot prices. It requests a new plan for jobs whose plan is now worse by more than the threshold,
// and leaves the spot machines that are no longer worth their price or that the deadline no longer allows.
func (b *Functions) tick(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.MarketTicked)
	if !ok {
		return unexpected(events.FnTick, e.Data)
	}
	changed := data.Changed
	if data.After == "" {
		var err error
		if changed, err = b.recordPrices(ctx, e.ID, data.Prices); err != nil {
			return err
		}
	}
	prices := make(map[string]events.MarketChange, len(changed)) // by offer
	for _, c := range changed {
		prices[c.Offer] = c
	}
	goOn := func(s span) events.Data {
		return events.MarketTicked{After: s.after, Until: s.until, Changed: changed}
	}
	return b.walk(ctx, events.FnTick, e.ID, span{data.After, data.Until}, goOn, func(u *txn.Unit, w *walked) error {
		return b.watchJob(u, e.ID, w, prices)
	})
}

// recordsOfPrice is the number of records to which a changed price is written.
const recordsOfPrice = 2

// recordPrices records prices, and returns those that changed. It fetches the prices if the event has none.
func (b *Functions) recordPrices(
	ctx context.Context, cause string, prices []events.PriceTick,
) (changed []events.MarketChange, err error) {
	if len(prices) == 0 && b.ports.Prices != nil {
		if prices, err = b.ports.Prices.SpotPrices(ctx); err != nil {
			return nil, fmt.Errorf("%w: spot prices: %w", errAgain, err)
		}
	}
	n := 0
	for part := range slices.Chunk(prices, txn.Full/recordsOfPrice) {
		var of []events.MarketChange
		id := fmt.Sprintf("%s/%d", cause, n)
		err := b.txns.Transact(ctx, events.FnTick, id, false, func(u *txn.Unit) (err error) {
			of, err = b.recordPriceBatch(u, cause, part)
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

// recordPriceBatch records some prices, and returns those that changed. If an event is delivered again, it returns
// the prices that the event changed before, because the plans and bids requested for them may have been lost.
func (b *Functions) recordPriceBatch(
	u *txn.Unit, cause string, prices []events.PriceTick,
) (changed []events.MarketChange, err error) {
	prices = slices.DeleteFunc(slices.Clone(prices), func(p events.PriceTick) bool { return !(p.USD > 0) })
	var markets, histories []store.Key
	for _, p := range prices {
		markets = append(markets, record.MarketKey(p.Offer))
	}
	if err := u.Preload(markets...); err != nil {
		return nil, err
	}
	var news []record.MarketRecord
	for _, p := range prices {
		m, _, err := recordcache.Get[record.MarketRecord](u, record.MarketKey(p.Offer))
		if err != nil {
			return nil, err
		}
		at := u.Now
		if !p.Since.IsZero() && p.Since.Before(at) {
			at = p.Since
		}
		if m.USD == p.USD || at.Before(m.At) { // unchanged, or older than the recorded price
			if m.USD == p.USD && m.By == cause {
				changed = append(changed, events.MarketChange{Offer: p.Offer, USD: p.USD})
			}
			continue
		}
		m.Offer, m.USD, m.At, m.By = p.Offer, p.USD, at, cause
		m.Prices.Observe(at, p.USD)
		var d record.Decision
		d.Put(record.MarketKey(p.Offer), m)
		if err := u.Apply(d); err != nil {
			return nil, err
		}
		news, histories = append(news, m), append(histories, record.PastPricesKey(p.Offer))
	}
	if err := u.Preload(histories...); err != nil {
		return nil, err
	}
	for _, m := range news {
		past, _, err := recordcache.Get[record.PastPrices](u, record.PastPricesKey(m.Offer))
		if err != nil {
			return nil, err
		}
		past.Offer = m.Offer
		past.Add(m.At, m.USD)
		var d record.Decision
		d.Put(record.PastPricesKey(m.Offer), past)
		if err := u.Apply(d); err != nil {
			return nil, err
		}
		changed = append(changed, events.MarketChange{Offer: m.Offer, USD: m.USD})
	}
	return changed, nil
}

// checkPlan requests a new plan for a job if a market on which its unstarted tasks are planned has become too
// expensive. It requests new bids if a price differs too much from the price of the current bids.
func (b *Functions) checkPlan(ctx context.Context, cause, id string, changed map[string]events.MarketChange) error {
	return b.txns.Transact(ctx, events.FnTick, cause+"/"+id, false, func(u *txn.Unit) error {
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
		if err != nil || !found || job.State != apitypes.JobRunning || job.Plan.IsZero() {
			return record.OrSkip(err)
		}
		plan, err := u.Plan(job)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(plan.Offers, func(p record.Planned) bool {
			return changed[record.MarketID(p.ID)].USD > 0
		}) {
			return record.ErrSkip
		}
		progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(id))
		if err != nil {
			return err
		}
		var d record.Decision
		if offer, share := increase(progress, plan, changed); share >= b.cfg.Worse {
			d.Replan(job, fmt.Sprintf("%s makes it %.0f%% more expensive", offer, 100*share))
			return u.Apply(d)
		}
		bids, err := u.Bids(job)
		if err != nil {
			return err
		}
		moved, share := bids.Moved(progress, plan, changed)
		if share >= b.cfg.Worse && (len(bids.Tables) > 0 || !job.Deadline.IsZero()) {
			moved.Job, moved.Plan = id, job.Plan.Version
			d.Emit(moved)
			return u.Apply(d)
		}
		return record.ErrSkip
	})
}

// increase returns the offer that has increased the cost of a plan's unstarted part most since the plan was made, and
// the increase as a share of the plan's cost.
func increase(progress record.Progress, plan *record.Plan,
	changed map[string]events.MarketChange) (offer string, share float64) {
	byOffer := map[int32]float64{}
	for i, c := range plan.Choice {
		if c >= 0 && plan.PhaseOf(progress, i) == record.PhaseWaiting && plan.Offers[c].Offer.Spot {
			byOffer[c] += plan.OwnUSD(i)
		}
	}
	for c := range plan.Offers {
		p := &plan.Offers[c]
		id := record.MarketID(p.ID)
		usd := changed[id].USD + p.SurchargeUSD
		if changed[id].USD <= 0 || p.Offer.USDPerHour <= 0 || plan.USD <= 0 {
			continue
		}
		//nolint:gosec // an index of a slice whose indexes are int32
		if s := byOffer[int32(c)] * (usd/p.Offer.USDPerHour - 1) / plan.USD; s > share {
			offer, share = id, s
		}
	}
	return offer, share
}

// refresh reloads the catalogue, if the host can. It also renews the packs of jobs that have been open for long.
func (b *Functions) refresh(ctx context.Context, e events.Event) error {
	if _, ok := e.Data.(events.CatalogRefresh); !ok {
		return unexpected(events.FnRefresh, e.Data)
	}
	if b.ports.Refresh != nil {
		if err := b.ports.Refresh(ctx); err != nil {
			return fmt.Errorf("%w: refresh the catalogue: %w", errAgain, err)
		}
	}
	if err := b.KeepPacks(ctx); err != nil {
		return fmt.Errorf("%w: keep packs: %w", errAgain, err)
	}
	return nil
}

// doneWaiting reports whether a task of a job that waited for a better price need not wait any more.
func (b *Functions) doneWaiting(u *txn.Unit, job record.Job) (bool, error) {
	if !job.Waits {
		return false, nil
	}
	bids, err := u.Bids(job)
	if err != nil {
		return false, err
	}
	for _, x := range bids.Begin {
		task, found, err := recordcache.Get[record.Task](u, record.TaskKey(job.ID, x.Task))
		if err != nil {
			return false, err
		}
		if !found || task.WaitSince.IsZero() {
			continue
		}
		w, err := bid.LoadWaiting(u, b.cfg, job, task)
		if err != nil {
			return false, err
		}
		if w != nil && !w.Waits(u.Now) {
			return true, nil
		}
	}
	return false, nil
}
