package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Explain returns a [*NoOfferError] that explains why a query has no match, nil if it has one, or a [*QueryError]. It
// drops one filter after the other, and reports the offers that match without that filter.
func (c *Catalog) Explain(q Query) error {
	matches := false
	q.Limit = 1
	if err := c.Visit(q, func(*Match) bool { matches = true; return false }); err != nil || matches {
		return err
	}
	return c.explain(q)
}

// maxListed is the maximum number of relaxations in the text of an error, and of names in one relaxation.
const maxListed = 3

func (c *Catalog) explain(q Query) *NoOfferError {
	if name, err := c.acceleratorName(q.Accelerator); err == nil && q.Accelerator != AnyAccelerator {
		q.Accelerator = name
	}
	e := &NoOfferError{Query: q}
	for _, r := range relaxers {
		if relaxed, ok := r.relax(q); ok {
			if found := c.tally(relaxed, r.distanceFrom(&q)); found.offers > 0 {
				e.Relaxations = append(e.Relaxations, Relaxation{
					Filter: r.filter, Text: r.text(&q, found), Matches: found.offers, Closest: found.closest,
				})
			}
		}
	}
	e.text = c.errorText(&q, e.Relaxations)
	return e
}

// errorText returns the text of the error: the query, the misspelt names in it, and the available alternatives. It
// offers no relaxation for a filter that has only misspelt names, because the user has to correct those.
func (c *Catalog) errorText(q *Query, relaxations []Relaxation) string {
	parts := []string{"no offer has " + describe(q)}
	slips := c.misspellings(q)
	slipped := make(map[string]int)
	for _, s := range slips {
		parts = append(parts, s.hint)
		slipped[s.filter]++
	}
	told := 0
	for _, r := range relaxations {
		if told == maxListed || slipped[r.Filter] > 0 && slipped[r.Filter] >= q.countNames(r.Filter) {
			continue
		}
		text := r.Text
		if told > 0 {
			text = "or " + text
		}
		parts = append(parts, text)
		told++
	}
	if len(parts) == 1 {
		parts = append(parts, "relaxing any one of these is not enough")
	}
	return strings.Join(parts, "; ")
}

// relaxer drops one filter of a query and describes the offers that match then.
type relaxer struct {
	filter string
	// relax returns q without the filter; ok is false if q does not use it.
	relax func(q Query) (relaxed Query, ok bool)
	// away, if not nil, returns how far a match is from the value of the filter.
	away func(q *Query, m *Match) float64
	text func(q *Query, t *tally) string
}

// distanceFrom returns away for the query q.
func (r *relaxer) distanceFrom(q *Query) func(*Match) float64 {
	if r.away == nil {
		return func(*Match) float64 { return 0 }
	}
	return func(m *Match) float64 { return r.away(q, m) }
}

// relaxers are in the order in which users usually give up requirements.
var relaxers = [...]relaxer{
	{
		filter: "keep",
		relax:  func(q Query) (Query, bool) { used := q.Keep != nil; q.Keep = nil; return q, used },
		text: func(_ *Query, t *tally) string {
			return fmt.Sprintf("%d are left out for now, such as %s", t.offers, t.closest.ID())
		},
	},
	{
		filter: "acceleratorCount",
		relax:  func(q Query) (Query, bool) { used := q.AcceleratorCount > 0; q.AcceleratorCount = 0; return q, used },
		away:   func(q *Query, m *Match) float64 { return shortfall(Exactly(q.AcceleratorCount), m.AcceleratorCount) },
		text:   func(_ *Query, t *tally) string { return spec(&t.closest.Offer) + " on " + t.clouds() },
	},
	{
		filter: "vcpu",
		relax:  func(q Query) (Query, bool) { used := q.VCPU != Range{}; q.VCPU = Range{}; return q, used },
		away:   func(q *Query, m *Match) float64 { return shortfall(q.VCPU, m.VCPU) },
		text:   func(_ *Query, t *tally) string { return formatCount(t.closest.VCPU) + " vCPUs on " + t.clouds() },
	},
	{
		filter: "memoryGiB",
		relax:  func(q Query) (Query, bool) { used := q.MemoryGiB != Range{}; q.MemoryGiB = Range{}; return q, used },
		away:   func(q *Query, m *Match) float64 { return shortfall(q.MemoryGiB, m.MemoryGiB) },
		text:   func(_ *Query, t *tally) string { return fault.Number(t.closest.MemoryGiB) + " GiB on " + t.clouds() },
	},
	{
		filter: "market",
		relax:  func(q Query) (Query, bool) { used := q.Market != AnyMarket; q.Market = AnyMarket; return q, used },
		text:   func(_ *Query, t *tally) string { return t.closest.Market.String() + ", from " + t.price() },
	},
	{
		filter: "maxUSDPerHour",
		relax:  func(q Query) (Query, bool) { used := q.MaxUSDPerHour > 0; q.MaxUSDPerHour = 0; return q, used },
		away:   func(_ *Query, m *Match) float64 { return m.USDPerHour },
		text:   func(_ *Query, t *tally) string { return "from " + t.price() },
	},
	{
		filter: "maxInterruption",
		relax: func(q Query) (Query, bool) {
			used := q.MaxInterruption != UnknownInterruption
			q.MaxInterruption = UnknownInterruption
			return q, used
		},
		away: func(_ *Query, m *Match) float64 {
			if m.Interruption == UnknownInterruption {
				return math.Inf(1)
			}
			return float64(m.Interruption)
		},
		text: func(_ *Query, t *tally) string {
			return fmt.Sprintf("interrupted %s a month, on %s",
				cmp.Or(t.closest.Interruption.String(), "an unknown share"), t.clouds())
		},
	},
	{
		filter: "zones",
		relax:  func(q Query) (Query, bool) { used := len(q.Zones) > 0; q.Zones = nil; return q, used },
		text:   func(_ *Query, t *tally) string { return "offered in " + t.zones() },
	},
	{
		filter: "regions",
		relax:  func(q Query) (Query, bool) { used := len(q.Regions) > 0; q.Regions = nil; return q, used },
		text:   func(_ *Query, t *tally) string { return "offered in " + t.regions() },
	},
	{
		filter: "clouds",
		relax:  func(q Query) (Query, bool) { used := len(q.Clouds) > 0; q.Clouds = nil; return q, used },
		text:   func(_ *Query, t *tally) string { return "offered on " + t.clouds() },
	},
	{
		filter: "arch",
		relax:  func(q Query) (Query, bool) { used := q.Arch != ""; q.Arch = ""; return q, used },
		text:   func(_ *Query, t *tally) string { return fmt.Sprintf("%s on %s", t.closest.Arch, t.clouds()) },
	},
	{
		filter: "maxCarbonGPerKWh",
		relax:  func(q Query) (Query, bool) { used := q.MaxCarbonGPerKWh > 0; q.MaxCarbonGPerKWh = 0; return q, used },
		away: func(_ *Query, m *Match) float64 {
			if m.CarbonGPerKWh == 0 {
				return math.Inf(1)
			}
			return m.CarbonGPerKWh
		},
		text: func(_ *Query, t *tally) string {
			if t.closest.CarbonGPerKWh == 0 {
				return "offered in " + t.regions() + ", whose grid's carbon is not known"
			}
			return fmt.Sprintf("a grid of %g gCO2eq/kWh in %s", t.closest.CarbonGPerKWh, t.regions())
		},
	},
	{
		filter: "service",
		relax:  func(q Query) (Query, bool) { used := q.Service != NoService; q.Service = NoService; return q, used },
		text:   func(q *Query, t *tally) string { return "without " + string(q.Service) + " on " + t.clouds() },
	},
	{
		filter: "cpu",
		relax:  func(q Query) (Query, bool) { used := q.CPU != ""; q.CPU = ""; return q, used },
		text:   func(_ *Query, t *tally) string { return "with processor " + t.closest.CPU + " on " + t.clouds() },
	},
	{
		filter: "family",
		relax:  func(q Query) (Query, bool) { used := q.Family != ""; q.Family = ""; return q, used },
		text:   func(_ *Query, t *tally) string { return "other families, such as " + t.closest.Family },
	},
	{
		filter: "instanceType",
		relax:  func(q Query) (Query, bool) { used := q.InstanceType != ""; q.InstanceType = ""; return q, used },
		text:   func(_ *Query, t *tally) string { return "other machine types, such as " + t.closest.InstanceType },
	},
	{
		filter: "accelerator",
		relax: func(q Query) (Query, bool) {
			// The work needs the accelerator that the query names, so another one is no alternative. But a query that
			// names a machine type, or no accelerator, may work with one.
			used := q.Accelerator == "" || q.InstanceType != "" && q.Accelerator != AnyAccelerator
			q.Accelerator, q.AcceleratorCount = AnyAccelerator, 0
			return q, used
		},
		text: func(_ *Query, t *tally) string {
			if t.closest.Accelerator == "" {
				return "no accelerator in " + t.closest.InstanceType
			}
			return "with accelerators, such as " + spec(&t.closest.Offer) + " in " + t.closest.InstanceType
		},
	},
}

// shortfall returns the distance of x from r, as a ratio. A larger x is nearer than a smaller one, because a larger
// machine can do the work and a smaller one may not.
func shortfall(r Range, x float64) float64 {
	switch {
	case r.contains(x):
		return 0
	case x > r.Max && r.Max > 0:
		return x / r.Max
	case x > 0:
		return 1e6 * r.Min / x
	default:
		return math.Inf(1)
	}
}

// tally is the result of a relaxed query: the number of matches, the closest match, and the places of all equally
// close matches.
type tally struct {
	offers  int
	closest Match
	least   float64
	// near are the places of the closest matches, cheapest first.
	near []*table.Place
}

// tally runs q. Matches are in the order of their cost, so the first of the closest matches is the cheapest of them.
func (c *Catalog) tally(q Query, distance func(*Match) float64) *tally {
	q.Limit, q.CheapestPer = 0, PerOffer
	t := &tally{}
	s, _ := c.scratch.Get().(*scratch)
	near := newBitset(len(c.cols.Places))
	var m Match
	err := s.search(c, &q, func(e uint32) bool {
		s.fill(c, &m, e)
		t.offers++
		d := distance(&m)
		if t.offers == 1 || d < t.least {
			t.least, t.closest, t.near = d, m, t.near[:0]
			clear(near)
		}
		if p := int(c.cols.Place[e>>1]); d == t.least && !near.has(p) {
			near.add(p)
			t.near = append(t.near, &c.cols.Places[p])
		}
		return true
	})
	c.scratch.Put(s)
	if err != nil {
		return &tally{} // cannot happen: callers pass only queries that compile
	}
	return t
}

func (t *tally) clouds() string {
	names := t.names(func(p *table.Place) string { return p.Cloud })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (t *tally) regions() string {
	return few(t.names(func(p *table.Place) string { return p.Cloud + ":" + p.Region }))
}

func (t *tally) zones() string {
	return few(t.names(func(p *table.Place) string { return cmp.Or(p.Zone, p.Region) }))
}

// names returns the distinct names of the nearest places, cheapest first.
func (t *tally) names(of func(*table.Place) string) []string {
	var names []string
	for _, p := range t.near {
		if name := of(p); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (t *tally) price() string {
	return strconv.FormatFloat(t.closest.USDPerHour, 'g', 6, 64) + " USD/h"
}

func few(names []string) string {
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return strings.Join(names, ", ")
}

// spec returns an offer's accelerators as users write them: V100:4.
func spec(o *Offer) string {
	return accel.Spec{Name: o.Accelerator, Count: o.AcceleratorCount}.String()
}
