package sim

import (
	"context"
	"encoding/json"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// priceSource provides the prices of a world to the broker.
type priceSource struct{ w *world }

// SpotPrices implements broker.Prices. It returns the prices that have changed since the beginning.
func (p priceSource) SpotPrices(context.Context) ([]events.PriceTick, error) {
	p.w.before("prices")
	return p.w.sky.Ticks(), nil
}

// know stores prices from before the beginning in the broker's records.
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
		w.check.KnowPrice(m)
	}
	if err := w.store.mem.Commit(context.Background(), tx); err != nil {
		w.Violate(check.InvErrors, err.Error())
	}
}

// outbid takes the machines of a listing whose bid is below the current price.
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
