package weather

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Watched is the time for which prices have been observed when the history of a world with tides begins.
const Watched = 5 * 24 * time.Hour

// highTide is the price factor at high tide.
const highTide = 2.4

// PastPrices simulates some days of prices before the history begins, and returns the broker's records of them. All
// prices rise and fall together, so that waiting makes them cheaper.
func (s *Sky) PastPrices() []record.MarketRecord {
	tides := s.faults.Tides
	if tides.Good == 0 {
		return nil
	}
	s.tidal = true
	learned := make([]market.Online, len(Catalogue()))
	now := timeline.Beginning().Add(-Watched)
	turn := now
	for ; !now.After(timeline.Beginning()); now = now.Add(PricesEvery) {
		turned := !now.Before(turn)
		if turned {
			s.high = !s.high
			turn = turn.Add(s.tide())
		}
		for i, l := range Catalogue() {
			if turned || s.prices.Chance(changes) {
				usd := s.next(l)
				learned[i].Observe(now, usd)
				s.Paths[l.ID()] = Course{{now, usd}}
			}
		}
	}
	s.time.After(turn.Sub(timeline.Beginning()), s.turn)
	return s.Records(learned)
}

// Records returns the observations of each listing, and its current price.
func (s *Sky) Records(learned []market.Online) (out []record.MarketRecord) {
	for i, l := range Catalogue() {
		q := s.Paths[l.ID()].Now()
		out = append(out, record.MarketRecord{Offer: l.ID(), USD: q.USD, At: q.At, Prices: learned[i]})
	}
	return out
}

// tide draws how long high or low prices last.
func (s *Sky) tide() time.Duration {
	if s.high {
		return s.prices.Span(s.faults.Tides.Bad)
	}
	return s.prices.Span(s.faults.Tides.Good)
}

// turn turns the tide and changes all prices.
func (s *Sky) turn() {
	if s.faults.Tides.Good == 0 {
		return // it stays as it is
	}
	s.high = !s.high
	for _, l := range Catalogue() {
		s.Quote(l.ID(), s.next(l))
	}
	s.time.After(s.tide(), s.turn)
}
