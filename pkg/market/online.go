package market

import (
	"math"
	"slices"
	"time"
)

// Online is a price chain that is learned as prices come in, at whatever times they come: a Markov chain in continuous
// time over bands of half an octave. For each band it keeps the hours that the price has spent there and what they
// cost, and how often it went to which other; all of it fades. It is small enough to be kept in a record (about 30
// bytes a band), and its zero value knows nothing.
type Online struct {
	// Ref is the first price, from which the bands are counted.
	Ref float64 `json:"ref,omitempty"`
	// USD is the last price, and At when it was seen, in Unix milliseconds.
	USD   float64     `json:"usd,omitempty"`
	At    int64       `json:"at,omitempty"`
	Bands []PriceBand `json:"bands,omitempty"` // by index
	Jumps []Jump      `json:"jumps,omitempty"`
}

// PriceBand is a band of prices: those within a quarter of an octave of Ref·2^(Index/2).
type PriceBand struct {
	Index int     `json:"i"`
	Hours float64 `json:"h"`
	Cost  float64 `json:"c"` // USD paid by one who had a machine in all those hours
}

// Jump is how often the price went from one band to another.
type Jump struct {
	From  int     `json:"f"`
	To    int     `json:"t"`
	Count float64 `json:"n"`
}

// How an Online learns: what it has seen counts half after a week; a band of which little is known is left as if in two
// hours one more jump would have been seen, and a price never seen before is taken to stay for a day; and once a month,
// for all it knows, the price goes to the on-demand price.
const (
	onlineHalfLife = 7 * 24.0
	onlinePrior    = 2.0
	onlineReturn   = 24.0
	onlineSpike    = 1 / (30 * 24.0)
	bandsMost      = 40 // bands from Ref, either way
)

// Observe takes in the price at a time. A price that is none, and a time that is not after the last one, is passed
// over.
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
	o.pass(float64(ms-o.At) / float64(time.Hour/time.Millisecond))
	from, to := o.index(o.USD), o.index(usd)
	o.USD, o.At = usd, ms
	if from != to {
		o.band(to)
		o.jump(from, to)
	}
}

// pass lets hours go by at the last price.
func (o *Online) pass(hours float64) {
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

// Seen is how often the price has gone from one band to another, and for how many hours it has been watched; what was
// seen a week ago counts half.
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
	return max(-bandsMost, min(bandsMost, i))
}

// band finds a band, or adds it.
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

// Chain is the chain with steps of some hours, for a machine that costs onDemandUSD per hour on demand: that price is
// always among its levels, since any market may come to it, and some above it, to say what a price would mean that was
// never seen. usd is the price now, for an Online that has seen none. The levels rise; P is the exponential of the
// matrix of rates.
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

// rates are the price of each level, rising, and the rate at which each goes to each other per hour.
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
	// Little is known of a price that was rarely seen; the prior is that it goes back to the commonest one.
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

// exponential is e^(rates·step) by rows, of rates whose diagonal is left out: a short step, squared.
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

// MeanAhead is the mean price of the next steps after one at a level, each counted at no more than most.
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
