package record

import (
	"slices"
	"time"
)

// MaxPastPrices is the number of price changes that are kept for a market. So the record stays below 4 KB. For a
// price that changes a few times a day, it covers some weeks.
const MaxPastPrices = 96

// PastPrices is the price history of one spot market, for display. No decision uses it. It is a separate record so
// that the records for plans and bids stay small.
type PastPrices struct {
	Offer  string      `json:"offer"` // without its market
	Points []PastPrice `json:"points"`
}

// PastPrice is a price and the time since which it was valid, in Unix milliseconds.
type PastPrice struct {
	At  int64   `json:"t"`
	USD float64 `json:"p"`
}

// Add adds a price from a time on, unless that time is not later than the last one. It drops the oldest price if
// there are too many.
func (p *PastPrices) Add(at time.Time, usd float64) {
	ms := at.UnixMilli()
	if n := len(p.Points); n > 0 && ms <= p.Points[n-1].At {
		return
	}
	kept := p.Points[max(len(p.Points)+1-MaxPastPrices, 0):]
	p.Points = append(slices.Clone(kept), PastPrice{At: ms, USD: usd})
}
