package bidding

import (
	"context"
	"math"
	"sort"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Mixture models one market with several chains that differ in their number of levels. A short
// history is enough to estimate a chain with few levels, and a chain with many levels distinguishes
// small price steps. The expected cost is the mean over the chains, as if they were equally likely.
type Mixture struct {
	chains []*market.Chain
	tables []*Table
	od     float64
}

// NewMixture builds the tables of the chains for up to work hours of work in up to time hours. The last hour begins
// at deadline−1, an index on the chains' scale of hours. An hour whose spot price is too high can run on demand
// (Model.Fallback). Errors wrap ErrModel, or are the context's.
func NewMixture(ctx context.Context, chains []*market.Chain, onDemandUSD, restart float64, work, time,
	deadline int) (*Mixture, error) {
	x := &Mixture{chains: chains, od: onDemandUSD}
	for _, c := range chains {
		m := PriceModel(c, onDemandUSD, restart)
		m.Fallback = true
		m.Factor = make([]float32, time+1)
		for left := range m.Factor {
			m.Factor[left] = float32(c.Factor(deadline - left))
		}
		t, err := Build(ctx, m, work, time)
		if err != nil {
			return nil, err
		}
		x.tables = append(x.tables, t)
	}
	return x, nil
}

// Bid returns the maximum price worth paying for the next hour, and whether the hour should run on demand, instead of
// waiting, if spot costs more. hour is its index on the chains' scale, last is the price of the hour before in USD, and
// work and time are the amounts that remain before the hour.
func (x *Mixture) Bid(work, time float64, hour int, last float64, on Holding) (maxUSD float64, onDemand bool) {
	low := 0.0
	for _, high := range x.edges(hour) {
		usd := min(high, x.od)
		// Between two edges every chain stays at one level. Spot is worth its price up to the point where it
		// costs as much as the best alternative.
		if worth := x.worth(work, time, hour, (low+usd)/2, on); worth > low {
			maxUSD = min(worth, usd)
		}
		if low = high; low >= x.od {
			break
		}
	}
	return maxUSD, maxUSD >= x.od-1e-12 || x.extraOnDemand(work, time, hour, last, maxUSD, on) < 0
}

// worth returns the price at which an hour on spot is expected to cost as much to the end as the best alternative.
// usd selects the levels of the chains.
func (x *Mixture) worth(work, time float64, hour int, usd float64, on Holding) float64 {
	wait, spot, onDemand := 0.0, 0.0, 0.0
	for i, t := range x.tables {
		c := t.Choose(work, time, x.chains[i].Level(usd, hour), usd, on)
		wait, spot, onDemand = wait+c.Wait, spot+c.Spot-usd, onDemand+c.OnDemand
	}
	return (min(wait, onDemand) - spot) / float64(len(x.tables))
}

// edges returns the prices at which any chain changes its level in an hour, in rising order. The last edge is +Inf.
func (x *Mixture) edges(hour int) []float64 {
	edges := []float64{math.Inf(1)}
	for _, c := range x.chains {
		for _, top := range c.Top[:len(c.Top)-1] {
			edges = append(edges, top*c.Factor(hour))
		}
	}
	sort.Float64s(edges)
	return edges
}

// extraOnDemand returns the expected extra cost of an hour on demand compared to waiting, to the
// end of the run, summed over all prices above the bid.
func (x *Mixture) extraOnDemand(work, time float64, hour int, last, bid float64, on Holding) (sum float64) {
	for i, t := range x.tables {
		s := x.chains[i].Level(last, hour-1)
		for q := range t.levels {
			usd := float64(t.model.spotUSD(q, int(time)))
			if usd <= bid {
				continue
			}
			c := t.Choose(work, time, q, usd, on)
			sum += float64(t.model.P[s*t.levels+q]) * (c.OnDemand - min(c.Wait, 2*missedCost64))
		}
	}
	return sum
}
