package planner

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// market is a catalogue with what every plan asks of it. It does not change once it is made.
type market struct {
	catalog *catalog.Catalog
	// places are all regions, CLOUD:REGION, by number; usd and hours are what moving a GiB between them costs and
	// takes, and dearest and slowest the most that it does.
	places           []string
	number           map[string]int
	usd, hours       [][]float64
	dearest, slowest float64
	// banded are the clouds that publish how often spot machines are interrupted, partly those that do not for all.
	banded, partly []string
}

func newMarket(c *catalog.Catalog, moves *egress.Prices) (*market, error) {
	m := &market{catalog: c, number: map[string]int{}}
	for _, cloud := range c.Clouds() {
		for _, region := range c.Regions(cloud) {
			name := cloud + ":" + region
			m.number[name] = len(m.places)
			m.places = append(m.places, name)
		}
	}
	var err error
	if m.usd, m.hours, err = moves.Matrix(m.places); err != nil {
		return nil, err
	}
	for i := range m.places {
		m.dearest, m.slowest = max(m.dearest, slices.Max(m.usd[i])), max(m.slowest, slices.Max(m.hours[i]))
	}
	for _, name := range c.Clouds() {
		before := len(m.banded)
		q := catalog.Query{
			Clouds: []string{name}, Accelerator: catalog.AnyAccelerator, Market: catalog.Spot,
			MaxInterruption: catalog.InterruptionAbove20, Limit: 1,
		}
		err := c.Visit(q, func(*catalog.Match) bool { m.banded = append(m.banded, name); return false })
		if err != nil {
			return nil, err
		}
		if len(m.banded) == before {
			continue
		}
		q.MaxInterruption, q.Keep = catalog.UnknownInterruption, unbanded
		err = c.Visit(q, func(*catalog.Match) bool { m.partly = append(m.partly, name); return false })
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func unbanded(m *catalog.Match) bool { return m.Interruption == catalog.UnknownInterruption }

// market is that of the catalogue in use, made when it is first needed.
func (p *Planner) market() (*market, error) {
	c := p.catalog.Load()
	if m := p.known.Load(); m != nil && m.catalog == c {
		return m, nil
	}
	m, err := newMarket(c, p.moves)
	if err != nil {
		return nil, err
	}
	p.known.Store(m)
	return m, nil
}
