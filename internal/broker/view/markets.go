package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// forecastHours lists the times of price forecasts, in hours from now.
var forecastHours = []float64{1, 3, 6, 12, 24}

// bidJobs is the maximum number of jobs whose bids are listed.
const bidJobs = 200

// Markets lists up to limit known spot markets by name. It starts after the name after. next is the value of after
// for the next page, or "".
func (b *Views) Markets(
	ctx context.Context,
	after string,
	limit int,
) (views []apitypes.MarketView, next string, err error) {
	lines, more, err := b.txns.Store.Query(ctx, record.PartMarket, "", store.Page{After: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	if more {
		next = lines[len(lines)-1].Key.Sort
	}
	bids, err := b.bids(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, line := range lines {
		var m record.MarketRecord
		if err := json.Unmarshal(line.Body, &m); err != nil {
			return nil, "", fmt.Errorf("broker: record %s: %w", line.Key, err)
		}
		views = append(views, marketView(m, bids[m.Offer]))
	}
	return views, next, nil
}

func marketView(m record.MarketRecord, bids []apitypes.Bid) apitypes.MarketView {
	v := apitypes.MarketView{
		Offer: m.Offer, USD: m.USD, Since: m.At, HeldHours: m.Hours, Launches: m.Launches, Preemptions: m.Preemptions,
		Refusals: m.Refusals, Forecast: []apitypes.Forecast{}, Bids: bids,
	}
	if v.Bids == nil {
		v.Bids = []apitypes.Bid{}
	}
	if m.USD > 0 {
		v.Changes, v.SeenHours = m.Prices.Seen()
		for _, e := range m.Prices.Ahead(m.USD, forecastHours...) {
			v.Forecast = append(v.Forecast, apitypes.Forecast{Hours: e.Hours, USD: e.USD, Low: e.Low, High: e.High})
		}
	}
	return v
}

// bids returns the bids for the machines that jobs hold now, by market.
func (b *Views) bids(ctx context.Context) (map[string][]apitypes.Bid, error) {
	u := b.txns.NewUnit(ctx, "api")
	active, err := recordcache.List[record.JobIndex](u, record.PartActive, "", bidJobs)
	if err != nil {
		return nil, err
	}
	keys := make([]store.Key, len(active))
	for i := range active {
		keys[i] = record.LedgerKey(active[i].ID)
	}
	for part := range slices.Chunk(keys, record.MaxItems) {
		if err := u.Preload(part...); err != nil {
			return nil, err
		}
	}
	all := map[string][]apitypes.Bid{}
	for i, key := range keys {
		ledger, _, err := recordcache.Get[record.Ledger](u, key)
		if err != nil {
			return nil, err
		}
		if ledger.Outstanding == 0 {
			continue
		}
		clusters, err := recordcache.List[record.Cluster](u, record.JobPart(active[i].ID), record.ClusterPrefix, 0)
		if err != nil {
			return nil, err
		}
		for _, cl := range clusters {
			if cl.Market != "" && !cl.Launched.IsZero() && cl.State != record.ClusterReleasing {
				all[cl.Market] = append(all[cl.Market], apitypes.Bid{
					Job: cl.Job, Task: cl.Task, Attempt: cl.Attempt, MaxUSD: cl.MaxUSD, RateUSD: cl.Rate(),
					Nodes: len(cl.Nodes),
				})
			}
		}
	}
	return all, nil
}

// PastPrices returns the last price changes of some spot markets, the oldest first. The result has the order of
// offers.
func (b *Views) PastPrices(ctx context.Context, offers []string) ([]record.PastPrices, error) {
	u := b.txns.NewUnit(ctx, "api")
	keys := make([]store.Key, len(offers))
	for i, o := range offers {
		keys[i] = record.PastPricesKey(record.MarketID(o))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	all := make([]record.PastPrices, len(keys))
	for i, key := range keys {
		p, _, err := recordcache.Get[record.PastPrices](u, key)
		if err != nil {
			return nil, err
		}
		p.Offer = key.Sort
		all[i] = p
	}
	return all, nil
}
