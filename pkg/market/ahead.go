package market

// Expected is what is expected of a price some hours from now.
type Expected struct {
	Hours float64 // from now
	USD   float64 // mean
	// Low and High are the prices that it is at or below with a chance of one in ten, and of nine in ten.
	Low, High float64
}

// Ahead is how the price is expected to go on from usd, the price now, at each of some hours from now, by what was seen
// of it alone: the chain that bids go by (see [Online.Chain]), without its expectation that any market may come to its
// on-demand price. An Online that has seen nothing expects nothing else than the price now.
func (o *Online) Ahead(usd float64, hours ...float64) []Expected {
	out := make([]Expected, 0, len(hours))
	for _, h := range hours {
		c := o.Chain(h, usd, usd)
		now := c.level(usd)
		e := Expected{Hours: h, Low: c.USD[0]}
		below := 0.0
		for q, p := range c.P[now*len(c.USD) : (now+1)*len(c.USD)] {
			e.USD += float64(p) * c.USD[q]
			if below < 0.1 {
				e.Low = c.USD[q]
			}
			if below < 0.9 {
				e.High = c.USD[q]
			}
			below += float64(p)
		}
		out = append(out, e)
	}
	return out
}
