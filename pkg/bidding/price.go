package bidding

import "github.com/tradewind-broker/tradewind/pkg/market"

// PriceModel returns the model of a market with bids. Its states are the levels of the price chain, and its steps are
// hours. restart is the share of an hour that every start of a machine costs. The caller applies the factors of the
// hours of the day, because only the caller knows the hour of the deadline.
func PriceModel(chain *market.Chain, onDemandUSD, restart float64) Model {
	usd := make([]float32, len(chain.USD))
	for l, p := range chain.USD {
		usd[l] = float32(p)
	}
	return Model{USD: usd, P: chain.P, OnDemandUSD: onDemandUSD, Restart: restart}
}
