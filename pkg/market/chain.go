package market

import (
	"math"
	"sort"
)

// ChainOptions say how a price chain is learned. The zero value counts all history alike, at 24 levels, as the paper
// does.
type ChainOptions struct {
	// Levels is the most price levels, 24 where it is 0. There are fewer where the history has fewer prices.
	Levels int
	// HalfLife is after how many hours an observation counts half; 0 is never.
	HalfLife float64
	// Smoothing is how many observations the prior of each row is worth. The prior stays where it is with one half, and
	// otherwise goes where prices have been; it speaks for levels that were seen rarely.
	Smoothing float64
	// Daily learns a factor for each hour of the day, and Weekly one for weekends (Relate only); the chain is of what
	// is left of the price without them.
	Daily, Weekly bool
	// Trend is the half-life in hours of the trailing level that Relate relates prices to; 0 is three days.
	Trend float64
}

const defaultLevels = 24

// stay is the share of a row's prior that stays at its level.
const stay = 0.5

// Chain is a market's price as a Markov chain with hourly steps (WCSSI, equations 4 and 5).
type Chain struct {
	// USD is the mean price of each level, rising; Top the highest price that belongs to it.
	USD, Top []float64
	// P is the matrix of transitions by rows: P[s·len(USD)+q] is the probability that the price is at level q in the
	// hour after one at level s.
	P []float32
	// Rhythm is what the prices are multiples of: a level's price times the factor of an hour is its price in that
	// hour.
	Rhythm
}

// Learn learns a chain from the price of each hour, oldest first; the hour with index i has i modulo 24 for its hour of
// the day. It needs at least one price; with few it stays where it is, by the prior.
func Learn(hourly []float64, o ChainOptions) *Chain {
	c := &Chain{}
	n := len(hourly)
	if n == 0 {
		return c
	}
	weight := decay(n, o.HalfLife)
	prices := hourly
	if o.Daily {
		c.Daily = daily(hourly)
		prices = make([]float64, n)
		for i, p := range hourly {
			prices[i] = p / c.Factor(i)
		}
	}
	c.Top = quantiles(prices, max(o.Levels, 0))
	at := make([]int, n)
	mass := make([]float64, len(c.Top))
	c.USD = make([]float64, len(c.Top))
	for i, p := range prices {
		at[i] = c.level(p)
		mass[at[i]] += weight[i]
		c.USD[at[i]] += weight[i] * p
	}
	for l, m := range mass {
		c.USD[l] /= m
	}
	c.count(at, weight, mass, o.Smoothing)
	return c
}

// decay is the weight of each of n observations, the newest of which counts 1.
func decay(n int, halfLife float64) []float64 {
	weight := make([]float64, n)
	for i := range weight {
		weight[i] = 1
		if halfLife > 0 {
			// Never so little that a level would weigh nothing.
			weight[i] = max(math.Exp2(-float64(n-1-i)/halfLife), 1e-12)
		}
	}
	return weight
}

// quantiles cuts prices into levels of about as many hours each, and returns the highest price of each. Equal prices
// stay together.
func quantiles(prices []float64, levels int) (top []float64) {
	if levels == 0 {
		levels = defaultLevels
	}
	sorted := append([]float64(nil), prices...)
	sort.Float64s(sorted)
	n := len(sorted)
	for l := 1; l <= levels; l++ {
		i := l*n/levels - 1
		if i < 0 || len(top) > 0 && sorted[i] <= top[len(top)-1] {
			continue
		}
		top = append(top, sorted[i])
	}
	return top
}

// count fills the matrix of transitions: weighted counts, and the prior.
func (c *Chain) count(at []int, weight, mass []float64, smoothing float64) {
	n := len(c.USD)
	counts := make([]float64, n*n)
	for i := 1; i < len(at); i++ {
		counts[at[i-1]*n+at[i]] += weight[i]
	}
	c.fill(counts, mass, smoothing)
}

// fill makes the matrix of transitions from counts, and the prior from the weight of each level.
func (c *Chain) fill(counts, mass []float64, smoothing float64) {
	n := len(c.USD)
	total := 0.0
	for _, m := range mass {
		total += m
	}
	smoothing = max(smoothing, 1e-9) // a row that was never left has the prior alone
	c.P = make([]float32, n*n)
	for s := range n {
		row := counts[s*n : (s+1)*n]
		sum := smoothing
		for _, x := range row {
			sum += x
		}
		for q, x := range row {
			prior := (1 - stay) * mass[q] / total
			if q == s {
				prior += stay
			}
			c.P[s*n+q] = float32((x + smoothing*prior) / sum)
		}
	}
}

// Level is the level of a price in an hour on the scale of the chain's Rhythm, the highest for all above it.
func (c *Chain) Level(usd float64, hour int) int { return c.level(usd / c.Factor(hour)) }

func (c *Chain) level(usd float64) int {
	return min(sort.SearchFloat64s(c.Top, usd), len(c.Top)-1)
}
