package sim

import (
	"context"
	"encoding/json"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// priceSource tells the broker the prices of a world.
type priceSource struct{ w *world }

// SpotPrices implements broker.Prices: what has changed since the beginning, and when.
func (p priceSource) SpotPrices(context.Context) ([]events.PriceTick, error) {
	p.w.before("prices")
	return p.w.sky.Ticks(), nil
}

// know has the broker know of prices from before the history begins.
func (w *world) know(prices []record.MarketRecord) {
	tx := store.Tx{}
	for _, m := range prices {
		body, err := json.Marshal(m)
		if err != nil {
			w.Violate(check.InvErrors, err.Error())
			return
		}
		tx.Writes = append(tx.Writes, store.Write{Op: store.Put, Key: store.Key{Partition: "market", Sort: m.Offer},
			Expect: store.Any, Body: body})
		w.check.Knows(m)
	}
	if err := w.store.mem.Commit(context.Background(), tx); err != nil {
		w.Violate(check.InvErrors, err.Error())
	}
}

// outbid takes the machines of a listing for which less was bid than it costs.
func (w *world) outbid(id string, usd float64) {
	for _, c := range w.clouds {
		for _, f := range c.order {
			for _, m := range f.machines {
				if m.Offer.Spot && weather.ListingOf(m.Offer) == id && m.Alive() && m.Bid < usd-check.Rounding {
					w.Count("outbid")
					m.take(true)
				}
			}
		}
	}
}
