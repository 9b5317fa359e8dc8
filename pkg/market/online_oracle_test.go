package market_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// seen is one price at a time, in hours.
type seen struct{ at, usd float64 }

// watched computes the documented values of an Online from all prices: hours and cost of each price band, and jumps
// between bands. All of them fade by half in a week.
func watched(prices []seen) (hours, cost map[int]float64, jumps map[[2]int]float64) {
	hours, cost, jumps = map[int]float64{}, map[int]float64{}, map[[2]int]float64{}
	last := prices[len(prices)-1].at
	band := func(usd float64) int {
		return max(-40, min(40, int(math.Round(2*math.Log2(usd/prices[0].usd)))))
	}
	for i, p := range prices[1:] {
		before, fade := prices[i], math.Pow(0.5, (last-p.at)/168)
		from, to := band(before.usd), band(p.usd)
		hours[from] += fade * (p.at - before.at)
		cost[from] += fade * (p.at - before.at) * before.usd
		if from != to {
			jumps[[2]int{from, to}] += fade
		}
	}
	return hours, cost, jumps
}

// TestOnlineMatchesDefinition compares the stored values with sums over all prices, and the chain with the power
// series of the exponential.
func TestOnlineMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, at := &market.Online{}, 0.0
		var prices []seen
		for range rapid.IntRange(1, 25).Draw(t, "prices") {
			at += rapid.SampledFrom([]float64{0.25, 1, 7, 100}).Draw(t, "hours")
			usd := rapid.SampledFrom([]float64{0.1, 0.11, 0.15, 0.2, 0.4, 1.7, 1e9}).Draw(t, "usd")
			prices = append(prices, seen{at, usd})
			o.Observe(time.UnixMilli(int64(at*3.6e6)), usd)
		}
		hours, cost, jumps := watched(prices)
		sumHours, sumJumps := 0.0, 0.0
		for _, b := range o.Bands {
			sumHours += hours[b.Index]
			if math.Abs(b.Hours-hours[b.Index]) > 1e-9*(1+b.Hours) || math.Abs(b.Cost-cost[b.Index]) > 1e-9*(1+b.Cost) {
				t.Fatalf("band %+v, not %v h and %v USD", b, hours[b.Index], cost[b.Index])
			}
		}
		for _, j := range o.Jumps {
			want := jumps[[2]int{j.From, j.To}]
			sumJumps += want
			if math.Abs(j.Count-want) > 1e-9 {
				t.Fatalf("jump %+v, not %v", j, want)
			}
		}
		if len(o.Jumps) != len(jumps) {
			t.Fatalf("%d jumps, not %d", len(o.Jumps), len(jumps))
		}
		if changes, watched := o.Seen(); math.Abs(changes-sumJumps) > 1e-9 || math.Abs(watched-sumHours) > 1e-9*(1+sumHours) {
			t.Fatalf("seen %v changes in %v h, not %v in %v", changes, watched, sumJumps, sumHours)
		}
		compareChain(t, o, prices, rapid.SampledFrom([]float64{0.3, 1, 2}).Draw(t, "on demand"))
	})
}

// compareChain compares an Online's chain with its documentation. The rate from one band to another is the number of
// jumps, divided by the hours in the first band plus two. From every band the price goes to the on-demand price once
// a month. From every band it also returns to the most common band, faster if the band was observed for less time.
func compareChain(t *rapid.T, o *market.Online, prices []seen, onDemand float64) {
	hours, cost, jumps := watched(prices)
	usd, ref := prices[len(prices)-1].usd, prices[0].usd
	band := func(p float64) int { return max(-40, min(40, int(math.Round(2*math.Log2(p/ref))))) }
	// Levels are the observed bands, and two that every chain has.
	level, highest := map[int]float64{}, 0.0
	for _, p := range prices {
		b := band(p.usd)
		level[b] = ref * math.Exp2(float64(b)/2)
		if hours[b] > 0 {
			level[b] = cost[b] / hours[b]
		}
		highest = max(highest, ref*math.Exp2(float64(b)/2))
	}
	assumed := map[int]bool{}
	for i, p := range []float64{usd, onDemand, onDemand * math.Sqrt2, 2 * onDemand, 4 * onDemand} {
		if b := band(p); (i < 2 || p >= math.Sqrt2*highest) && hours[b] == 0 && !assumed[b] {
			level[b], assumed[b] = p, true
		}
	}
	var bands []int
	for b := -40; b <= 40; b++ {
		if _, there := level[b]; there {
			bands = append(bands, b)
		}
	}
	const step = 0.5
	c, n := o.Chain(step, usd, onDemand), len(bands)
	if len(c.USD) != n {
		t.Fatalf("%d levels %v, not %d: %v", len(c.USD), c.USD, n, level)
	}
	common := bands[0]
	for _, b := range bands {
		if hours[b] > hours[common] {
			common = b
		}
	}
	rates := make([][]float64, n)
	for f, from := range bands {
		rates[f] = make([]float64, n)
		if math.Abs(c.USD[f]/level[from]-1) > 1e-6 {
			t.Fatalf("level %d costs %v, not %v", f, c.USD[f], level[from])
		}
		top := math.MaxFloat64
		if f+1 < n {
			top = math.Sqrt(level[from] * level[bands[f+1]])
		}
		if math.Abs(c.Top[f]/top-1) > 1e-6 {
			t.Fatalf("level %d ends at %v, not %v", f, c.Top[f], top)
		}
		for q, to := range bands {
			if f == q {
				continue
			}
			r := jumps[[2]int{from, to}] / (hours[from] + 2)
			if to == band(onDemand) {
				r += 1 / 720.0
			}
			if to == common {
				r += 1 / (hours[from] + 24)
			}
			rates[f][q] = r
			rates[f][f] -= r
		}
	}
	want := series(rates, step)
	// The chain is computed by squaring a short step repeatedly. Its error grows with the rates.
	most := 0.0
	for f := range n {
		most = max(most, -rates[f][f])
	}
	within := min(0.01, most*step/64+1e-6)
	for f := range n {
		for q := range n {
			if got := float64(c.P[f*n+q]); math.Abs(got-want[f][q]) > within {
				t.Fatalf("probability from %v to %v: %v, not %v", c.USD[f], c.USD[q], got, want[f][q])
			}
		}
	}
}

// series computes e^(a·x) as a power series. Forty terms are enough for the values drawn here.
func series(a [][]float64, x float64) [][]float64 {
	n := len(a)
	sum, term := make([][]float64, n), make([][]float64, n)
	for i := range n {
		sum[i], term[i] = make([]float64, n), make([]float64, n)
		sum[i][i], term[i][i] = 1, 1
	}
	for k := 1; k <= 40; k++ {
		next := make([][]float64, n)
		for i := range n {
			next[i] = make([]float64, n)
			for j := range n {
				for m := range n {
					next[i][j] += term[i][m] * a[m][j] * x / float64(k)
				}
				sum[i][j] += next[i][j]
			}
		}
		term = next
	}
	return sum
}

// Observe must ignore invalid prices, and prices that are not newer than the last one.
func TestObserveIgnoresInvalidPrices(t *testing.T) {
	o, start := &market.Online{}, time.Unix(1_000_000, 0)
	for _, usd := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		o.Observe(start, usd)
		if o.Ref != 0 || len(o.Bands) != 0 {
			t.Fatalf("%v was accepted as a price: %+v", usd, o)
		}
	}
	o.Observe(start, 1)
	o.Observe(start, 2)                     // the same time
	o.Observe(start.Add(-time.Hour), 2)     // an earlier time
	o.Observe(start.Add(time.Hour), 0)      // not a price
	o.Observe(start.Add(2*time.Hour), 1e-9) // valid, however low
	if len(o.Jumps) != 1 || o.Jumps[0].Count != 1 || o.Bands[len(o.Bands)-1].Hours != 2 || o.Bands[0].Index != -40 {
		t.Errorf("%+v", o)
	}
}

// MeanAhead returns the mean price over the next hours. Prices above the buyer's maximum count as the maximum.
func TestMeanAhead(t *testing.T) {
	c := &market.Chain{USD: []float64{1, 4}, P: []float32{0.75, 0.25, 0.5, 0.5}}
	for _, k := range []struct {
		level, steps int
		most, want   float64
	}{
		{0, 1, 9, 1}, {1, 1, 9, 4}, {1, 1, 3, 3}, {0, 0, 9, 1},
		{0, 2, 9, (1 + 0.75*1 + 0.25*4) / 2},
		{1, 3, 2, (2 + (0.5*1 + 0.5*2) + (0.625*1 + 0.375*2)) / 3},
	} {
		near(t, "mean ahead", c.MeanAhead(k.level, k.steps, k.most), k.want)
	}
}

// The rate at an age is combined with the kin's rate at that age, if the kin have observed a change. The kin's rate
// is combined with their mean.
func TestRateOfAgeLeansOnKin(t *testing.T) {
	kin := []*market.Availability{{}, {}, {}}
	kin[0].Observe(true, 6*time.Minute)
	kin[0].Observe(true, 10*time.Hour) // from an age of six minutes on
	kin[0].Observe(false, time.Hour)
	kin[1].Observe(true, 5*time.Hour)
	a := &market.Availability{Kin: kin}
	mean := 1 / 15.1 // of the kin, over all ages
	young := (0 + 1) / (0.1 + 10 + 5 + 1/mean)
	near(t, "young, no own observations", a.Rate(true, 0), young)
	a.Observe(true, 2*time.Hour)
	lean := 0.25 / young
	near(t, "young, two own hours", a.Rate(true, 0), (0+young*lean)/(2+lean))
	// The change came at an age of more than ten hours.
	old := (1 + 1) / (0 + 1/mean)
	near(t, "old", a.Rate(true, 10.1), old)
}
