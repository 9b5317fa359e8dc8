package planner

import "github.com/tradewind-broker/tradewind/pkg/broker"

var _ broker.Mover = (*Planner)(nil)

// Move implements broker.Mover.
func (p *Planner) Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool) {
	m, err := p.market()
	if err != nil {
		return 0, 0, false
	}
	i, known := m.number[from]
	k, alsoKnown := m.number[to]
	if !known || !alsoKnown {
		return 0, 0, false
	}
	return m.usd[i][k], m.hours[i][k], true
}

// PlaceOf implements broker.Mover.
func (p *Planner) PlaceOf(uri string) string { return PlaceOf(uri) }
