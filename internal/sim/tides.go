package sim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/market"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// watched is for how long prices have been watched when the history of a world with tides begins.
const watched = 5 * 24 * time.Hour

// dearer is how much dearer everything is at high tide.
const dearer = 2.4

// pastPrices lets prices go for some days before the history begins, and has the broker know of them. All rise and fall
// together, so that who waits gets them cheaper.
func (s *sky) pastPrices() {
	tides := s.w.faults.Tides
	if tides.Well == 0 {
		return
	}
	s.tidal = true
	learned := make([]market.Online, len(catalogue()))
	now := beginning().Add(-watched)
	turn := now
	for ; !now.After(beginning()); now = now.Add(pricesEvery) {
		turned := !now.Before(turn)
		if turned {
			s.high = !s.high
			turn = turn.Add(s.tide())
		}
		for i, l := range catalogue() {
			if turned || s.prices.chance(changes) {
				usd := s.next(l)
				learned[i].Observe(now, usd)
				s.paths[l.id()] = course{{now, usd}}
			}
		}
	}
	s.w.after(turn.Sub(beginning()), s.turn)
	s.know(learned)
}

// know has the broker know what was learned of each listing, and what it costs now.
func (s *sky) know(learned []market.Online) {
	tx := store.Tx{}
	for i, l := range catalogue() {
		q := s.paths[l.id()].now()
		m := record.MarketRecord{Offer: l.id(), USD: q.usd, At: q.at, Prices: learned[i]}
		body, err := json.Marshal(m)
		if err != nil {
			s.w.violate(InvErrors, err.Error())
			return
		}
		tx.Writes = append(tx.Writes, store.Write{Op: store.Put, Key: store.Key{Partition: "market", Sort: l.id()},
			Expect: store.Any, Body: body})
		s.w.check.heardOf[l.id()] = []heardOf{{q, beginning()}}
	}
	if err := s.w.store.mem.Commit(context.Background(), tx); err != nil {
		s.w.violate(InvErrors, err.Error())
	}
}

// tide draws how long the tide stays as it is.
func (s *sky) tide() time.Duration {
	if s.high {
		return s.prices.span(s.w.faults.Tides.Ill)
	}
	return s.prices.span(s.w.faults.Tides.Well)
}

// turn turns the tide, and the price of everything with it.
func (s *sky) turn() {
	if s.w.faults.Tides.Well == 0 {
		return // it stays as it is
	}
	s.high = !s.high
	for _, l := range catalogue() {
		s.quote(l.id(), s.next(l))
	}
	s.w.after(s.tide(), s.turn)
}
