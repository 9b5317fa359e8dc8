package bidding

import "github.com/tradewind-broker/tradewind/pkg/market"

// PriceModel is the model of a market with bids: the states are the levels of its price chain, with hourly steps.
// restart is the share of an hour that every start of a machine costs. The factors of the hours of the day are left to
// the caller, who knows which hour the deadline is in.
func PriceModel(chain *market.Chain, onDemandUSD, restart float64) Model {
	usd := make([]float32, len(chain.USD))
	for l, p := range chain.USD {
		usd[l] = float32(p)
	}
	return Model{USD: usd, P: chain.P, OnDemandUSD: onDemandUSD, Restart: restart}
}
