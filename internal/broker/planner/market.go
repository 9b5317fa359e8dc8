package planner

import (
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// market is a catalogue with derived data that every plan needs. It is immutable.
type market struct {
	catalog *catalog.Catalog
	// places lists all regions, CLOUD:REGION: those of the catalogue, and those that only have data. usd and hours
	// are the cost and time of moving a GiB between two places, by their indexes; dearest and slowest are the maxima
	// of these.
	places           []string
	number           map[string]int
	usd, hours       [][]float64
	dearest, slowest float64
	// banded lists the clouds that publish interruption bands of spot machines. partly lists those that do so only
	// for some machines.
	banded, partly []string
	searches       *searches
}

func newMarket(c *catalog.Catalog, moves *egress.Prices) (*market, error) {
	m := &market{catalog: c, number: map[string]int{}, searches: &searches{}}
	for _, cloud := range c.Clouds() {
		for _, region := range c.Regions(cloud) {
			name := cloud + ":" + region
			m.number[name] = len(m.places)
			m.places = append(m.places, name)
		}
	}
	if err := m.connect(moves); err != nil {
		return nil, err
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

// connect calculates the cost and time of moving data between all places.
func (m *market) connect(moves *egress.Prices) (err error) {
	m.usd, m.hours, err = moves.Matrix(m.places)
	for i := range m.usd {
		m.dearest, m.slowest = max(m.dearest, slices.Max(m.usd[i])), max(m.slowest, slices.Max(m.hours[i]))
	}
	return err
}

// with returns a market that also has these places. A broker that buys only in a few regions may read data in others.
func (m *market) with(moves *egress.Prices, places []string) (*market, error) {
	n := len(m.places)
	more := *m
	for _, place := range places {
		_, known := more.number[place]
		if _, _, ok := moves.Move(place, place); known || !ok {
			continue
		}
		if len(more.places) == n {
			more.places, more.number = slices.Clip(m.places), maps.Clone(m.number)
		}
		more.number[place] = len(more.places)
		more.places = append(more.places, place)
	}
	if len(more.places) == n {
		return m, nil
	}
	return &more, more.connect(moves)
}

func unbanded(m *catalog.Match) bool { return m.Interruption == catalog.UnknownInterruption }

// market returns the market of the current catalogue. It builds the market at the first call.
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
