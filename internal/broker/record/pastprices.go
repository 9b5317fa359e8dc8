package record

import (
	"slices"
	"time"
)

// MaxPastPrices is how many changes of a market's price are kept: their record stays below 4 KB, and where a price
// changes a few times a day it is some weeks.
const MaxPastPrices = 96

// PastPrices is how the price of one spot market went, for people who look at it. Nothing is decided by it, so it has
// a record of its own: what plans and bids read stays small.
type PastPrices struct {
	Offer  string      `json:"offer"` // without its market
	Points []PastPrice `json:"points"`
}

// PastPrice is a price and since when it was one, in Unix milliseconds.
type PastPrice struct {
	At  int64   `json:"t"`
	USD float64 `json:"p"`
}

// Add adds a price since a time. One that is not after the last one is passed over; the oldest go first.
func (p *PastPrices) Add(at time.Time, usd float64) {
	ms := at.UnixMilli()
	if n := len(p.Points); n > 0 && ms <= p.Points[n-1].At {
		return
	}
	kept := p.Points[max(len(p.Points)+1-MaxPastPrices, 0):]
	p.Points = append(slices.Clone(kept), PastPrice{At: ms, USD: usd})
}
