package weather

import (
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Course is the history of a listing's spot price: the price from each time on.
type Course []Quote

// Quote is a price from a time on, USD per hour.
type Quote struct {
	At  time.Time
	USD float64
}

// Now returns the last price.
func (p Course) Now() Quote { return p[len(p)-1] }

// Cost returns the cost of a machine from one time to another, USD. No hour costs more than the bid.
func (p Course) Cost(from, to time.Time, bid float64) float64 {
	usd := 0.0
	for i, q := range p {
		begin, end := q.At, to
		if i+1 < len(p) && p[i+1].At.Before(to) {
			end = p[i+1].At
		}
		if i == 0 || begin.Before(from) {
			begin = from
		}
		usd += max(end.Sub(begin), 0).Hours() * min(q.USD, bid)
	}
	return usd
}

// Market returns the price history of a listing.
func (s *Sky) Market(id string) Course {
	if p, ok := s.Paths[id]; ok {
		return p
	}
	l, _ := Find(id)
	return Course{{USD: l.SpotUSD}}
}

// Quote changes the spot price of a listing.
func (s *Sky) Quote(id string, usd float64) {
	s.Paths[id] = append(slices.Clip(s.Market(id)), Quote{s.time.Now, usd})
	s.onPrice(id, usd)
}

// ListingOf returns the ID of an offer's listing.
func ListingOf(o apitypes.Offer) string {
	l := Listing{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType}
	return l.ID()
}

// BidOf returns the maximum price per hour of a launch.
func BidOf(spec cloud.LaunchSpec) float64 {
	if spec.MaxUSDPerHour > 0 {
		return spec.MaxUSDPerHour
	}
	if l, ok := Find(ListingOf(spec.Offer)); ok {
		return l.OnDemandUSD
	}
	return math.Inf(1)
}

// PricesEvery is the interval at which the broker reads prices: broker.Config.TickEvery.
const PricesEvery = 10 * time.Minute

// changes is the chance that a price changes between two looks at it.
const changes = 0.1

// BeginPrices starts price changes, for each listing at most one between two looks.
func (s *Sky) BeginPrices() {
	for _, l := range Catalogue() {
		if !s.prices.Chance(changes) {
			continue
		}
		usd := s.next(l)
		s.time.After(s.prices.Between(0, PricesEvery), func() { s.Quote(l.ID(), usd) })
	}
	s.time.After(PricesEvery, s.BeginPrices)
}

// next draws a new price of a listing.
func (s *Sky) next(l Listing) float64 {
	if spells := s.faults.Spells; spells > 0 && s.prices.Chance(spells) {
		return l.OnDemandUSD * s.prices.Uniform(0.6, 2) // high enough to move away, or to lose machines to higher bids
	}
	if s.tidal {
		usd := l.SpotUSD * s.prices.Uniform(0.9, 1.1)
		if s.high {
			usd *= highTide
		}
		return math.Min(usd, l.OnDemandUSD)
	}
	return math.Min(l.SpotUSD*s.prices.Uniform(0.7, 1.6), l.OnDemandUSD)
}

// Ticks returns the prices that have changed since the beginning, and when.
func (s *Sky) Ticks() []events.PriceTick {
	var ticks []events.PriceTick
	for _, l := range Catalogue() {
		if p, ok := s.Paths[l.ID()]; ok {
			ticks = append(ticks, events.PriceTick{Offer: l.ID(), USD: p.Now().USD, Since: p.Now().At})
		}
	}
	return ticks
}

// Moves returns the list prices of moving data, which are embedded in the binary.
func Moves() *egress.Prices {
	e, err := egress.Default()
	if err != nil {
		panic(err)
	}
	return e
}
