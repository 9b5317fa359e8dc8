package bidding

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// AvailabilityModel returns the model of one zone without bids: spot has a fixed price as long as machines are
// available. Prices are USD per hour. step is the length of the model's steps, and restart is the time that every
// start of a machine takes.
func AvailabilityModel(a *market.Availability, spotUSD, onDemandUSD float64, step, restart time.Duration) Model {
	usd := make([]float32, market.States)
	for s := range usd {
		usd[s] = float32(math.Inf(1))
		if market.StateUp(s) {
			usd[s] = float32(spotUSD * step.Hours())
		}
	}
	return Model{
		USD: usd, P: a.Matrix(step), OnDemandUSD: onDemandUSD * step.Hours(),
		Restart: restart.Hours() / step.Hours(),
	}
}

// WithMoves extends the model of several zones with moves between them: a held machine is lost at the given rate per
// hour while another zone has machines. Each state with machines gets a twin that is entered by such a loss.
// Continuing in a twin means a start in another zone.
func WithMoves(m Model, rate float64, step time.Duration) Model {
	n := m.Levels()
	var up []int
	for s, usd := range m.USD {
		if usd < missedCost {
			up = append(up, s)
		}
	}
	moved := float32(1 - math.Exp(-rate*step.Hours()))
	wide := n + len(up)
	out := m
	out.USD, out.P, out.Fresh = make([]float32, wide), make([]float32, wide*wide), make([]bool, wide)
	origin := make([]int, wide) // for each state, the original state (itself, or the one it is the twin of)
	for s := range wide {
		origin[s] = s
		if s >= n {
			origin[s], out.Fresh[s] = up[s-n], true
		}
		out.USD[s] = m.USD[origin[s]]
	}
	for s := range wide {
		row := m.P[origin[s]*n : (origin[s]+1)*n]
		to := out.P[s*wide : (s+1)*wide]
		copy(to, row)
		if m.USD[origin[s]] >= missedCost {
			continue // without a machine none can be lost
		}
		for twin, q := range up {
			to[n+twin] = row[q] * moved
			to[q] = row[q] * (1 - moved)
		}
	}
	return out
}

// hoursOf converts hours to a duration.
func hoursOf(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
