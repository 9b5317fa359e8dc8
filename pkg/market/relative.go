package market

import (
	"math"
	"sort"
)

// Past is the price of a market in each hour up to now, oldest first.
type Past struct {
	USD []float64
	// First is the index of the first hour on a scale that all related markets share. It must be that of WeekHour if
	// weekend factors are learned.
	First int
	// CapUSD limits the price with which an hour counts in the market's trailing level. Callers pass the on-demand
	// price, because they never pay more. 0 means no limit.
	CapUSD float64
}

// end returns the index of the hour after the last.
func (p *Past) end() int { return p.First + len(p.USD) }

// Relative is a market's past divided by its trailing level (the geometric mean of its last days), together with the
// pasts of its kin (the other zones of the type). The ratios follow the same chain when the level drifts, and zones
// can learn from each other: a zone that never had a period of high prices learns from those that had one.
type Relative struct {
	o      ChainOptions
	rhythm Rhythm
	level  float64   // the market's trailing level now, USD, without its rhythm
	own    []share   // oldest first
	kin    [][]share // one for each other market
}

// share is one hour: the ratio of its price to the trailing level before it, without the rhythm, and its weight.
type share struct{ of, weight float64 }

// trend is the default half-life of the trailing level in hours.
const trend = 72.0

// Relate divides the past of a market and of its kin by their trailing levels. It uses the options HalfLife,
// Smoothing, Daily, Weekly and Trend. It needs at least one price of the market itself.
func Relate(own Past, kin []Past, o ChainOptions) *Relative {
	if o.Trend <= 0 {
		o.Trend = trend
	}
	r := &Relative{o: o}
	if o.Daily {
		for h, f := range daily(own.USD) {
			r.rhythm.Daily[hourOfDay(own.First+h)] = f
		}
	}
	if o.Weekly {
		r.rhythm.Weekend = weekly(append([]Past{own}, kin...))
	}
	r.own, r.level = r.shares(own, own.end())
	for _, k := range kin {
		if len(k.USD) > 0 {
			shares, _ := r.shares(k, own.end())
			r.kin = append(r.kin, shares)
		}
	}
	return r
}

// shares converts a past to shares, weighted by their age at hour now, and returns the trailing level at its end.
func (r *Relative) shares(p Past, now int) (out []share, level float64) {
	most := p.CapUSD
	if most <= 0 {
		most = math.Inf(1)
	}
	fade := math.Exp2(-1 / r.o.Trend)
	sum, weight := 0.0, 0.0
	out = make([]share, len(p.USD))
	for i, usd := range p.USD {
		factor := r.rhythm.Factor(p.First + i)
		usd /= factor
		level = usd // the first hour has no hours before it
		if weight > 0 {
			level = math.Exp(sum / weight)
		}
		w := 1.0
		if r.o.HalfLife > 0 {
			// The lower bound keeps every level's total weight above zero.
			w = max(math.Exp2(-float64(now-1-p.First-i)/r.o.HalfLife), 1e-12)
		}
		out[i] = share{of: usd / level, weight: w}
		sum, weight = sum*fade+math.Log(min(usd, most/factor)), weight*fade+1
	}
	return out, math.Exp(sum / weight)
}

// Chain returns a chain with the given number of levels, in USD as of now. The market's own hours determine the
// limits and prices of the levels; the transitions of all markets determine the matrix.
func (r *Relative) Chain(levels int) *Chain {
	c := &Chain{Rhythm: r.rhythm, Top: weightedQuantiles(r.own, levels)}
	n := len(c.Top)
	c.USD = make([]float64, n)
	mass, counts := make([]float64, n), make([]float64, n*n)
	for _, s := range r.own {
		q := c.level(s.of)
		mass[q] += s.weight
		c.USD[q] += s.weight * s.of
	}
	for _, shares := range append([][]share{r.own}, r.kin...) {
		before := c.level(shares[0].of)
		for _, s := range shares[1:] {
			q := c.level(s.of)
			counts[before*n+q] += s.weight
			before = q
		}
	}
	for q := range c.USD {
		c.USD[q] *= r.level / mass[q]
		c.Top[q] *= r.level
	}
	c.fill(counts, mass, r.o.Smoothing)
	return c
}

// weightedQuantiles splits shares into levels of about equal weight and returns the highest share of each. Equal
// shares have the same level.
func weightedQuantiles(shares []share, levels int) (top []float64) {
	if levels <= 0 {
		levels = defaultLevels
	}
	sorted := append([]share(nil), shares...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].of < sorted[j].of })
	total := 0.0
	for _, s := range sorted {
		total += s.weight
	}
	sum, l := 0.0, 1
	for i, s := range sorted {
		sum += s.weight
		if sum < total*float64(l)/float64(levels)-1e-9 && i < len(sorted)-1 {
			continue
		}
		for l <= levels && sum >= total*float64(l)/float64(levels)-1e-9 {
			l++
		}
		if len(top) == 0 || s.of > top[len(top)-1] {
			top = append(top, s.of)
		}
	}
	return top
}
