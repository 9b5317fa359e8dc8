package market_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// plain computes the documented results of Relate and Chain directly from the definitions: one sum for each value,
// without shared intermediate results.
type plain struct {
	end   int // the hour after the market's last one
	pasts []market.Past
	o     market.ChainOptions
	known map[int]float64 // factors, by hour of the week
}

func hourOfWeek(hour int) int { return ((hour % 168) + 168) % 168 }

func isWeekend(hour int) bool { return hourOfWeek(hour) >= 120 }

// off returns the difference between the logarithm of an hour's price and the mean logarithm of the hours around it.
// It is limited to ±1.
func off(usd []float64, i, half int) float64 {
	mean := 0.0
	for _, p := range usd[i-half : i+half] {
		mean += math.Log(p) / float64(2*half)
	}
	return max(-1, min(1, math.Log(usd[i])-mean))
}

// factor returns the factor of an hour: the factor of its hour of the day, multiplied by the factor of weekends if it
// is on one.
func (p *plain) factor(hour int) float64 {
	week := hourOfWeek(hour)
	if _, ok := p.known[week]; !ok {
		if p.known == nil {
			p.known = map[int]float64{}
		}
		p.known[week] = p.factorAnew(hour)
	}
	return p.known[week]
}

func (p *plain) factorAnew(hour int) float64 {
	f := 1.0
	if own := p.pasts[0]; p.o.Daily {
		sum, weight := 0.0, 2.0 // the prior weighs as much as two observations
		for i := 12; i+12 < len(own.USD); i++ {
			if (own.First+i-hour)%24 == 0 {
				w := math.Pow(0.5, float64(len(own.USD)-1-i)/500)
				sum, weight = sum+w*off(own.USD, i, 12), weight+w
			}
		}
		f = math.Exp(sum / weight)
	}
	if !p.o.Weekly || !isWeekend(hour) {
		return f
	}
	var sums, counts [2]float64
	for _, past := range p.pasts {
		for i := 84; i+84 < len(past.USD); i++ {
			k := 0
			if isWeekend(past.First + i) {
				k = 1
			}
			sums[k], counts[k] = sums[k]+off(past.USD, i, 84), counts[k]+1
		}
	}
	if counts[0] == 0 || counts[1] == 0 {
		return f
	}
	return f * math.Exp((sums[1]/counts[1]-sums[0]/counts[0])*counts[1]/(counts[1]+96))
}

// level returns the trailing level before an hour: the fading mean of the logarithms of the paid prices.
func (p *plain) level(past market.Past, before int) float64 {
	sum, weight := 0.0, 0.0
	for i, usd := range past.USD[:before] {
		if past.CapUSD > 0 {
			usd = min(usd, past.CapUSD)
		}
		w := math.Pow(0.5, float64(before-1-i)/p.o.Trend)
		sum, weight = sum+w*math.Log(usd/p.factor(past.First+i)), weight+w
	}
	return math.Exp(sum / weight)
}

// share returns the ratio of an hour's price to the level before the hour, and the hour's weight.
func (p *plain) share(past market.Past, i int) (of, weight float64) {
	usd := past.USD[i] / p.factor(past.First+i)
	of = 1
	if i > 0 {
		of = usd / p.level(past, i)
	}
	if p.o.HalfLife <= 0 {
		return of, 1
	}
	return of, max(math.Pow(0.5, float64(p.end-1-past.First-i)/p.o.HalfLife), 1e-12)
}

// TestRelativeChainMatchesDefinition compares the levels, prices, rhythm and transitions with plain sums.
func TestRelativeChainMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.SampledFrom([]float64{0.1, 0.13, 0.2, 0.35, 0.5, 0.9, 1.4, 6})
		past := func(name string, zone, least int) market.Past {
			// The length is drawn separately, because rapid mostly draws short lists.
			n := max(least, rapid.SampledFrom([]int{0, 3, 30, 60, 240}).Draw(t, name+" hours"))
			usd := rapid.SliceOfN(price, n, n).Draw(t, name)
			for i := range usd {
				// All ratios differ. Otherwise, rounding would decide which of two equal ratios is higher.
				usd[i] *= 1 + 1e-4*float64(i)*(1+0.37*float64(zone))
			}
			return market.Past{USD: usd, First: rapid.IntRange(-400, 400).Draw(t, name+" first"),
				CapUSD: rapid.SampledFrom([]float64{0, 0.4, 1}).Draw(t, name+" cap")}
		}
		p := &plain{pasts: []market.Past{past("own", 0, 1)}, o: market.ChainOptions{
			HalfLife:  rapid.SampledFrom([]float64{0, 2, 50}).Draw(t, "half-life"),
			Smoothing: rapid.SampledFrom([]float64{0.5, 3}).Draw(t, "smoothing"),
			Daily:     rapid.Bool().Draw(t, "daily"), Weekly: rapid.Bool().Draw(t, "weekly"),
			Trend: rapid.SampledFrom([]float64{0, 5, 100}).Draw(t, "trend"),
		}}
		for zone := range rapid.IntRange(0, 2).Draw(t, "zones") {
			p.pasts = append(p.pasts, past("kin", zone+1, 0))
		}
		own := p.pasts[0]
		p.end = own.First + len(own.USD)
		c := market.Relate(own, p.pasts[1:], p.o).Chain(rapid.IntRange(0, 6).Draw(t, "levels"))
		if p.o.Trend == 0 {
			p.o.Trend = 72
		}
		for hour := p.end; hour < p.end+168; hour++ {
			if got, want := c.Factor(hour), p.factor(hour); math.Abs(got/want-1) > 1e-9 {
				t.Fatalf("hour %d has the factor %v, not %v", hour, got, want)
			}
		}
		p.check(t, c)
	})
}

// check compares the levels, prices and transitions of a chain, using the chain's own cuts.
func (p *plain) check(t *rapid.T, c *market.Chain) {
	own, n := p.pasts[0], len(c.Top)
	now := p.level(own, len(own.USD))
	at := func(of float64) int {
		for q, top := range c.Top {
			if of <= top/now*(1+1e-9) {
				return q
			}
		}
		return n - 1
	}
	mass, usd := make([]float64, n), make([]float64, n)
	counts := make([]float64, n*n)
	var shares []float64
	for k, past := range p.pasts {
		before := 0
		for i := range past.USD {
			of, weight := p.share(past, i)
			q := at(of)
			if k == 0 {
				shares = append(shares, of)
				mass[q], usd[q] = mass[q]+weight, usd[q]+weight*of
			}
			if i > 0 {
				counts[before*n+q] += weight
			}
			before = q
		}
	}
	for q := range n {
		top := c.Top[q] / now
		if !slices.ContainsFunc(shares, func(of float64) bool { return math.Abs(of/top-1) < 1e-9 }) {
			t.Fatalf("level %d ends at %v, which is not the share of any hour: %v", q, top, shares)
		}
		if want := usd[q] / mass[q] * now; math.Abs(c.USD[q]/want-1) > 1e-9 {
			t.Fatalf("level %d costs %v, not %v", q, c.USD[q], want)
		}
	}
	transitions(t, c, counts, mass, p.o.Smoothing)
	if top := slices.Max(shares); math.Abs(c.Top[n-1]/now/top-1) > 1e-9 {
		t.Fatalf("the highest level ends at %v, the highest share is %v", c.Top[n-1]/now, top)
	}
}

// transitions compares the matrix of a chain with the weighted counts of steps between levels, plus the prior of each
// row. Half of the prior stays in the level, and half is spread over the levels by the weight of their hours.
func transitions(t *rapid.T, c *market.Chain, counts, mass []float64, smoothing float64) {
	n, total := len(mass), 0.0
	for _, m := range mass {
		total += m
	}
	for q := range n {
		row := smoothing
		for r := range n {
			row += counts[q*n+r]
		}
		for r := range n {
			prior := mass[r] / total / 2
			if r == q {
				prior += 0.5
			}
			want := (counts[q*n+r] + smoothing*prior) / row
			if got := float64(c.P[q*n+r]); math.Abs(got-want) > 1e-6 {
				t.Fatalf("probability from level %d to %d: %v, not %v", q, r, got, want)
			}
		}
	}
}

// Levels must have about equal weight. If all hours have different prices and equal weight, there must be as many
// levels as requested.
func TestRelativeChainLevelsHaveEqualWeight(t *testing.T) {
	usd := make([]float64, 120)
	for h := range usd {
		usd[h] = math.Exp(math.Mod(float64(h)*0.618034, 1)) // evenly spread prices, all different
	}
	for _, levels := range []int{1, 2, 5, 24, 0} {
		c := market.Relate(market.Past{USD: usd}, nil, market.ChainOptions{Trend: 1e6, Smoothing: 1e-6}).Chain(levels)
		want := levels
		if want == 0 {
			want = 24
		}
		if len(c.Top) != want {
			t.Errorf("%d levels, asked for %d", len(c.Top), levels)
		}
	}
}
