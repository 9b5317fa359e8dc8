package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// course is how the spot price of a listing goes: what it costs from each moment on.
type course []quote

// quote is a price from a moment on, USD per hour.
type quote struct {
	at  time.Time
	usd float64
}

// now is the last price.
func (p course) now() quote { return p[len(p)-1] }

// cost is what an hour of a machine costs from one moment to another, where none is charged more than its bid. USD.
func (p course) cost(from, to time.Time, bid float64) float64 {
	usd := 0.0
	for i, q := range p {
		begin, end := q.at, to
		if i+1 < len(p) && p[i+1].at.Before(to) {
			end = p[i+1].at
		}
		if i == 0 || begin.Before(from) {
			begin = from
		}
		usd += max(end.Sub(begin), 0).Hours() * min(q.usd, bid)
	}
	return usd
}

// market is how the price of a listing has gone.
func (s *sky) market(id string) course {
	if p, ok := s.paths[id]; ok {
		return p
	}
	for _, l := range catalogue() {
		if l.id() == id {
			return course{{usd: l.spotUSD}}
		}
	}
	return course{{}}
}

// quote changes the spot price of a listing. Machines for which less was bid are taken.
func (s *sky) quote(id string, usd float64) {
	s.paths[id] = append(slices.Clip(s.market(id)), quote{s.w.now, usd})
	for _, c := range s.w.clouds {
		for _, f := range c.order {
			for _, m := range f.machines {
				if m.offer.Spot && listingOf(m.offer) == id && m.alive() && m.bid < usd-rounding {
					s.w.count("outbid")
					m.take(true)
				}
			}
		}
	}
}

// listingOf is the ID of an offer's listing.
func listingOf(o cloud.Offer) string {
	return listing{cloud: o.Cloud, region: o.Region, zone: o.Zone, instanceType: o.InstanceType}.id()
}

// bidOf is the most that somebody who launches machines pays for an hour of one.
func bidOf(spec cloud.LaunchSpec) float64 {
	if spec.MaxUSDPerHour > 0 {
		return spec.MaxUSDPerHour
	}
	for _, l := range catalogue() {
		if l.id() == listingOf(spec.Offer) {
			return l.onDemandUSD
		}
	}
	return math.Inf(1)
}

// changes is the chance that a price changes between two looks at it.
const changes = 0.1

// beginPrices has prices change by themselves, each at most once between two looks.
func (s *sky) beginPrices() {
	for _, l := range catalogue() {
		if !s.prices.chance(changes) {
			continue
		}
		usd := s.next(l)
		s.w.after(s.prices.between(0, pricesEvery), func() { s.quote(l.id(), usd) })
	}
	s.w.after(pricesEvery, s.beginPrices)
}

// next draws another price of a listing.
func (s *sky) next(l listing) float64 {
	if spells := s.w.faults.Spells; spells > 0 && s.prices.chance(spells) {
		return l.onDemandUSD * s.prices.uniform(0.6, 2) // a spell that is worth leaving for, or takes what is there
	}
	if s.tidal {
		usd := l.spotUSD * s.prices.uniform(0.9, 1.1)
		if s.high {
			usd *= dearer
		}
		return math.Min(usd, l.onDemandUSD)
	}
	return math.Min(l.spotUSD*s.prices.uniform(0.7, 1.6), l.onDemandUSD)
}

// SpotPrices implements broker.Prices: what has changed since the beginning, and when.
func (s *sky) SpotPrices(context.Context) ([]events.PriceTick, error) {
	s.w.before("prices")
	var ticks []events.PriceTick
	for _, l := range catalogue() {
		if p, ok := s.paths[l.id()]; ok {
			ticks = append(ticks, events.PriceTick{Offer: l.id(), USD: p.now().usd, Since: p.now().at})
		}
	}
	return ticks, nil
}
