package market

import (
	"math"
	"sort"
)

// ChainOptions configures how a price chain is learned. The zero value weights all history equally and uses 24
// levels, as the paper does.
type ChainOptions struct {
	// Levels is the maximum number of price levels; 0 means 24. A history with fewer distinct prices gives fewer
	// levels.
	Levels int
	// HalfLife is the age in hours at which an observation counts half. 0 means that observations never fade.
	HalfLife float64
	// Smoothing is the weight of each row's prior, in observations. Half of the prior stays at the row's level; the
	// other half is spread over the levels in proportion to the hours spent there. It matters for rarely seen levels.
	Smoothing float64
	// Daily learns a factor for each hour of the day, and Weekly one for weekends (Relate only). The chain then
	// models the prices divided by these factors.
	Daily, Weekly bool
	// Trend is the half-life in hours of the trailing price level that Relate divides prices by; 0 means three days.
	Trend float64
}

const defaultLevels = 24

// stay is the share of a row's prior for staying at the same level.
const stay = 0.5

// Chain is a market's price as a Markov chain with hourly steps (WCSSI, equations 4 and 5).
type Chain struct {
	// USD is the mean price of each level, in rising order; Top is the highest price of each level.
	USD, Top []float64
	// P is the transition matrix by rows: P[s·len(USD)+q] is the probability that the price is at level q one hour
	// after it was at level s.
	P []float32
	// Rhythm scales the levels: the price of a level in an hour is the level's price times the factor of that hour.
	Rhythm
}

// Learn learns a chain from hourly prices, oldest first. Element i belongs to hour i modulo 24 of the day. It needs
// at least one price. With few prices the prior dominates, so the chain mostly stays at its level.
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

// decay returns the weights of n observations; the newest counts 1.
func decay(n int, halfLife float64) []float64 {
	weight := make([]float64, n)
	for i := range weight {
		weight[i] = 1
		if halfLife > 0 {
			// The lower bound keeps every level's total weight above zero.
			weight[i] = max(math.Exp2(-float64(n-1-i)/halfLife), 1e-12)
		}
	}
	return weight
}

// quantiles splits prices into levels of about the same number of hours and returns the highest price of each level.
// Equal prices share a level.
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

// count fills the transition matrix from weighted counts and the prior.
func (c *Chain) count(at []int, weight, mass []float64, smoothing float64) {
	n := len(c.USD)
	counts := make([]float64, n*n)
	for i := 1; i < len(at); i++ {
		counts[at[i-1]*n+at[i]] += weight[i]
	}
	c.fill(counts, mass, smoothing)
}

// fill computes the transition matrix from counts, with a prior from the weight (mass) of each level.
func (c *Chain) fill(counts, mass []float64, smoothing float64) {
	n := len(c.USD)
	total := 0.0
	for _, m := range mass {
		total += m
	}
	smoothing = max(smoothing, 1e-9) // a row without any counted transition is all prior
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

// Level returns the level of a price in an hour, counted as the chain's Rhythm counts hours. Prices above all levels
// get the highest.
func (c *Chain) Level(usd float64, hour int) int { return c.level(usd / c.Factor(hour)) }

func (c *Chain) level(usd float64) int {
	return min(sort.SearchFloat64s(c.Top, usd), len(c.Top)-1)
}
