package market

// Expected is the forecast of a price some hours from now.
type Expected struct {
	Hours float64 // from now
	USD   float64 // mean
	// Low and High are the 10th and the 90th percentile of the price.
	Low, High float64
}

// Ahead returns the forecast of the price at each of the given hours from now. usd is the current price. The forecast
// uses observed prices only: it is the chain that bids use (see [Online.Chain]), but without the assumption that any
// market may reach its on-demand price. An Online that has seen no price forecasts the current price.
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
