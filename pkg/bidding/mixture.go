package bidding

import (
	"context"
	"math"
	"sort"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Mixture is one market as several chains of few and of many levels see it, none of which is right: few levels are told
// well from few hours, many tell small steps of the price apart. What something is expected to cost is the mean of what
// each says, as if they were equally likely.
type Mixture struct {
	chains []*market.Chain
	tables []*Table
	od     float64
}

// NewMixture builds the tables of chains for up to work steps of an hour in time hours, of which the last begins at
// deadline−1, an index on the chains' scale of hours. A price that turns out too high can be worked on demand
// (Model.Fallback). The error wraps ErrModel, or is the context's.
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

// Bid is the most worth paying for the next hour, which has an index on the chains' scale, after one at last USD, and
// whether it should rather be worked on demand than waited out where it costs more. Work and time are what is left
// before the hour.
func (x *Mixture) Bid(work, time float64, hour int, last float64, on Holding) (maxUSD float64, onDemand bool) {
	low := 0.0
	for _, high := range x.edges(hour) {
		usd := min(high, x.od)
		// Between two edges all chains see the same level: spot is worth it up to where it costs as much as the best
		// other way.
		if worth := x.worth(work, time, hour, (low+usd)/2, on); worth > low {
			maxUSD = min(worth, usd)
		}
		if low = high; low >= x.od {
			break
		}
	}
	return maxUSD, maxUSD >= x.od-1e-12 || x.dearer(work, time, hour, last, maxUSD, on) < 0
}

// worth is the price at which an hour on spot, at a level that holds some price, is expected to cost as much to the end
// as the best other way.
func (x *Mixture) worth(work, time float64, hour int, usd float64, on Holding) float64 {
	wait, spot, onDemand := 0.0, 0.0, 0.0
	for i, t := range x.tables {
		c := t.Choose(work, time, x.chains[i].Level(usd, hour), usd, on)
		wait, spot, onDemand = wait+c.Wait, spot+c.Spot-usd, onDemand+c.OnDemand
	}
	return (min(wait, onDemand) - spot) / float64(len(x.tables))
}

// edges are the prices at which some chain goes from one level to the next in an hour, rising, and the on-demand price
// or more at last.
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

// dearer is by how much an hour on demand is expected to cost more to the end than waiting, at prices above the bid.
func (x *Mixture) dearer(work, time float64, hour int, last, bid float64, on Holding) (sum float64) {
	for i, t := range x.tables {
		s := x.chains[i].Level(last, hour-1)
		for q := range t.levels {
			usd := float64(t.model.spotUSD(q, int(time)))
			if usd <= bid {
				continue
			}
			c := t.Choose(work, time, q, usd, on)
			sum += float64(t.model.P[s*t.levels+q]) * (c.OnDemand - min(c.Wait, 2*never64))
		}
	}
	return sum
}
