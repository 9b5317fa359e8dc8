package market

import (
	"math"
	"slices"
	"time"
)

// Online is a price chain that is learned as prices arrive, at irregular times. It is a Markov chain in continuous
// time over price bands of half an octave. For each band it keeps the hours spent there, their cost, and the number
// of jumps to each other band; all of it fades with time. It is small enough to store in a record (about 30 bytes a
// band). The zero value has seen no price.
type Online struct {
	// Ref is the first price. The bands are numbered relative to it.
	Ref float64 `json:"ref,omitempty"`
	// USD is the last price, and At when it was seen, in Unix milliseconds.
	USD   float64     `json:"usd,omitempty"`
	At    int64       `json:"at,omitempty"`
	Bands []PriceBand `json:"bands,omitempty"` // by index
	Jumps []Jump      `json:"jumps,omitempty"`
}

// PriceBand is a band of prices: all within a quarter of an octave of Ref·2^(Index/2).
type PriceBand struct {
	Index int     `json:"i"`
	Hours float64 `json:"h"`
	Cost  float64 `json:"c"` // USD that one machine would have cost in all those hours
}

// Jump counts how often the price went from one band to another.
type Jump struct {
	From  int     `json:"f"`
	To    int     `json:"t"`
	Count float64 `json:"n"`
}

// Constants of the learning, in hours or per hour. onlineHalfLife: an observation counts half after a week.
// onlinePrior: jump rates are computed as if the band had been observed for two more hours. onlineReturn: a price
// never seen before is expected to last a day. onlineSpike: once a month the price goes to the on-demand price, even
// if that was never observed.
const (
	onlineHalfLife = 7 * 24.0
	onlinePrior    = 2.0
	onlineReturn   = 24.0
	onlineSpike    = 1 / (30 * 24.0)
	maxBands       = 40 // maximum distance of a band from Ref, up or down
)

// Observe records the price at a time. It ignores prices that are not positive and finite, and times that are not
// after the last one.
func (o *Online) Observe(at time.Time, usd float64) {
	if !(usd > 0) || math.IsInf(usd, 0) {
		return
	}
	ms := at.UnixMilli()
	if o.Ref <= 0 {
		o.Ref, o.USD, o.At = usd, usd, ms
		o.band(o.index(usd))
		return
	}
	if ms <= o.At {
		return
	}
	o.addHours(float64(ms-o.At) / float64(time.Hour/time.Millisecond))
	from, to := o.index(o.USD), o.index(usd)
	o.USD, o.At = usd, ms
	if from != to {
		o.band(to)
		o.jump(from, to)
	}
}

// addHours accounts for hours that passed at the last price.
func (o *Online) addHours(hours float64) {
	fade := math.Exp2(-hours / onlineHalfLife)
	for i := range o.Bands {
		o.Bands[i].Hours *= fade
		o.Bands[i].Cost *= fade
	}
	for i := range o.Jumps {
		o.Jumps[i].Count *= fade
	}
	b := o.band(o.index(o.USD))
	b.Hours += hours
	b.Cost += hours * o.USD
}

// Seen returns the number of jumps between bands and the number of hours observed, both with fading: an observation
// from a week ago counts half.
func (o *Online) Seen() (changes, hours float64) {
	for _, j := range o.Jumps {
		changes += j.Count
	}
	for _, b := range o.Bands {
		hours += b.Hours
	}
	return changes, hours
}

func (o *Online) index(usd float64) int {
	i := int(math.Round(2 * math.Log2(usd/o.Ref)))
	return max(-maxBands, min(maxBands, i))
}

// band returns the band with the given index and adds it if necessary.
func (o *Online) band(index int) *PriceBand {
	i, found := slices.BinarySearchFunc(o.Bands, index, func(b PriceBand, i int) int { return b.Index - i })
	if !found {
		o.Bands = slices.Insert(o.Bands, i, PriceBand{Index: index})
	}
	return &o.Bands[i]
}

func (o *Online) jump(from, to int) {
	for i := range o.Jumps {
		if o.Jumps[i].From == from && o.Jumps[i].To == to {
			o.Jumps[i].Count++
			return
		}
	}
	o.Jumps = append(o.Jumps, Jump{From: from, To: to, Count: 1})
}

// Chain returns the chain with steps of the given hours, for a machine that costs onDemandUSD per hour on demand. Its
// levels always include the on-demand price, because any market may reach it, and some above it, so that prices never
// seen before have a level too. usd is the current price; it is the reference if the Online has seen no price. The
// levels rise. P is the matrix exponential of the rates.
func (o *Online) Chain(step, usd, onDemandUSD float64) *Chain {
	levels, rates := o.rates(usd, onDemandUSD)
	c := &Chain{P: exponential(rates, len(levels), step)}
	for i, p := range levels {
		top := math.MaxFloat64
		if i+1 < len(levels) {
			top = math.Sqrt(p * levels[i+1])
		}
		c.USD, c.Top = append(c.USD, p), append(c.Top, top)
	}
	return c
}

// rates returns the price of each level, in rising order, and the rates per hour from each level to each other.
func (o *Online) rates(usd, onDemandUSD float64) (levels, rates []float64) {
	ref := o.Ref
	if ref <= 0 {
		ref = usd
	}
	known := Online{Ref: ref, Bands: slices.Clone(o.Bands)}
	top := 0.0
	if n := len(o.Bands); n > 0 {
		top = ref * math.Exp2(float64(o.Bands[n-1].Index)/2)
	}
	for i, p := range []float64{usd, onDemandUSD, math.Sqrt2 * onDemandUSD, 2 * onDemandUSD, 4 * onDemandUSD} {
		if i > 1 && p < math.Sqrt2*top {
			continue // higher ones have been seen
		}
		if b := known.band(known.index(p)); b.Hours <= 0 {
			b.Hours, b.Cost = 1e-9, 1e-9*p
		}
	}
	at := map[int]int{}
	for i, b := range known.Bands {
		at[b.Index] = i
		p := ref * math.Exp2(float64(b.Index)/2)
		if b.Hours > 0 {
			p = b.Cost / b.Hours
		}
		levels = append(levels, p)
	}
	n := len(levels)
	rates = make([]float64, n*n)
	for _, j := range o.Jumps {
		f := at[j.From]
		rates[f*n+at[j.To]] += j.Count / (known.Bands[f].Hours + onlinePrior)
	}
	spike := at[known.index(onDemandUSD)]
	for f := range n {
		if f != spike {
			rates[f*n+spike] += onlineSpike
		}
	}
	// Little is known of a rarely seen price. The prior is that it returns to the most common one.
	common := 0
	for i := range known.Bands {
		if known.Bands[i].Hours > known.Bands[common].Hours {
			common = i
		}
	}
	for f := range n {
		if f != common {
			rates[f*n+common] += 1 / (known.Bands[f].Hours + onlineReturn)
		}
	}
	return levels, rates
}

// exponential returns e^(rates·step) by rows. The diagonal of rates is ignored. It computes one short step and
// squares it repeatedly.
func exponential(rates []float64, n int, step float64) []float32 {
	most := 0.0
	for f := range n {
		out := 0.0
		for q := range n {
			out += rates[f*n+q]
		}
		most = max(most, out)
	}
	squarings := 0
	for most*step/math.Exp2(float64(squarings)) > 1.0/64 && squarings < 40 {
		squarings++
	}
	h := step / math.Exp2(float64(squarings))
	p, next := make([]float64, n*n), make([]float64, n*n)
	for f := range n {
		stay := 1.0
		for q := range n {
			if q != f {
				p[f*n+q] = rates[f*n+q] * h
				stay -= p[f*n+q]
			}
		}
		p[f*n+f] = stay
	}
	for range squarings {
		square(next, p, n)
		p, next = next, p
	}
	out := make([]float32, n*n)
	for i, x := range p {
		out[i] = float32(x)
	}
	return out
}

func square(to, p []float64, n int) {
	clear(to)
	for f := range n {
		for k := range n {
			x := p[f*n+k]
			for q := range n {
				to[f*n+q] += x * p[k*n+q]
			}
		}
	}
}

// MeanAhead returns the mean price of the given number of steps, starting at a level. Each step counts at most the
// given maximum.
func (c *Chain) MeanAhead(level, steps int, most float64) float64 {
	n := len(c.USD)
	at, next := make([]float64, n), make([]float64, n)
	at[level] = 1
	sum := 0.0
	for range max(steps, 1) {
		for q, share := range at {
			sum += share * min(c.USD[q], most)
		}
		clear(next)
		for s, share := range at {
			for q := range n {
				next[q] += share * float64(c.P[s*n+q])
			}
		}
		at, next = next, at
	}
	return sum / float64(max(steps, 1))
}
