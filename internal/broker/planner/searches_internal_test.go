package planner

import (
	"hash/fnv"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// TestRememberedSearchesFindTheSame: random offers are excluded. A remembered search must find the same offers as a
// search of the catalogue.
func TestRememberedSearchesFindTheSame(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMarket(c, moves)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := search{
			Query: catalog.Query{
				VCPU:        catalog.AtLeast(float64(rapid.SampledFrom([]int{2, 16}).Draw(t, "cpus"))),
				CheapestPer: rapid.SampledFrom([]catalog.Scope{catalog.PerRegion, catalog.PerZone}).Draw(t, "scope"),
				Market:      rapid.SampledFrom([]catalog.Market{catalog.AnyMarket, catalog.Spot}).Draw(t, "market"),
				Faster:      rapid.Bool().Draw(t, "faster"),
			},
			Steady: rapid.Bool().Draw(t, "steady"), Unbanded: rapid.Bool().Draw(t, "unbanded"),
		}
		if rapid.Bool().Draw(t, "clouds") {
			s.Clouds = []string{"azure", "gcp"}
		}
		salt, share := rapid.Byte().Draw(t, "salt"), rapid.SampledFrom([]uint32{0, 3, 50, 100}).Draw(t, "percent")
		keep := func(m *catalog.Match) bool {
			sum := fnv.New32a()
			_, _ = sum.Write(append([]byte(m.ID()), salt))
			return sum.Sum32()%100 >= share
		}
		var got, want []string
		if err := m.best(s, keep, func(m *catalog.Match) { got = append(got, m.ID()) }); err != nil {
			t.Fatal(err)
		}
		q := s.Query
		q.Keep = func(m *catalog.Match) bool { return s.keeps(m) && keep(m) }
		if err := c.Visit(q, func(m *catalog.Match) bool { want = append(want, m.ID()); return true }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%d offers instead of %d", len(got), len(want))
		}
	})
}
