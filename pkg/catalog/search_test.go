package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
	"pgregory.net/rapid"
)

// oracle answers queries by checking every offer.
type oracle struct {
	offers    []Offer
	ids       []string
	surcharge map[Service][]float64
}

func newOracle(c *Catalog) *oracle {
	o := &oracle{offers: slices.Collect(c.All()), surcharge: make(map[Service][]float64)}
	for i := range o.offers {
		o.ids = append(o.ids, o.offers[i].ID())
		for _, s := range []Service{NoService, EMR, Dataproc} {
			o.surcharge[s] = append(o.surcharge[s], surchargeOf(s)(&c.cols.Machines[c.cols.Machine[i]]).USD())
		}
	}
	return o
}

func (all *oracle) find(q Query) []Match {
	inNames := func(list []string, cloud, name string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(want string) bool {
			return want == name || want == cloud+":"+name
		})
	}
	name, _ := accel.Normalize(q.Accelerator)
	type candidate struct {
		Match
		at int
	}
	var found []candidate
	for i, o := range all.offers {
		o.Service, o.SurchargeUSD = q.Service, all.surcharge[q.Service][i]
		switch {
		case q.Service != NoService && o.SurchargeUSD == 0,
			!q.VCPU.contains(o.VCPU), !q.MemoryGiB.contains(o.MemoryGiB),
			q.Accelerator == "" && q.InstanceType == "" && o.Accelerator != "",
			q.Accelerator != "" && q.Accelerator != AnyAccelerator && o.Accelerator != name,
			q.AcceleratorCount != 0 && o.AcceleratorCount != q.AcceleratorCount,
			!inNames(q.Clouds, "", o.Cloud), !inNames(q.Regions, o.Cloud, o.Region), !inNames(q.Zones, o.Cloud, o.Zone),
			q.Family != "" && !hardware.IsFamily(hardware.Family(o.Cloud, o.InstanceType), q.Family),
			q.CPU != "" && !hardware.IsCPU(hardware.Default().Speed(o.Cloud, o.InstanceType, o.VCPU).CPU, q.CPU),
			q.InstanceType != "" && !strings.EqualFold(q.InstanceType, o.InstanceType),
			q.Arch != "" && o.Arch != q.Arch,
			q.VCPU == Range{} && q.MemoryGiB == Range{} && q.InstanceType == "" && name != "" &&
				o.Attached && (o.VCPU < 4*o.AcceleratorCount || o.MemoryGiB < 15*o.AcceleratorCount),
			q.MaxCarbonGPerKWh != 0 && (o.CarbonGPerKWh == 0 || o.CarbonGPerKWh > q.MaxCarbonGPerKWh):
			continue
		}
		for _, market := range []Market{OnDemand, Spot} {
			usd, sold := o.USDPerHour(market)
			banned := market == Spot && q.MaxInterruption != UnknownInterruption &&
				(o.Interruption == UnknownInterruption || o.Interruption > q.MaxInterruption)
			m := Match{Offer: o, Market: market, USDPerHour: usd}
			if sold && !banned && (q.Market == AnyMarket || q.Market == market) && (q.Keep == nil || q.Keep(&m)) {
				found = append(found, candidate{m, i})
			}
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.USDPerHour, b.USDPerHour), cmp.Compare(all.ids[a.at], all.ids[b.at]), cmp.Compare(a.Market, b.Market))
	})
	matches := make([]Match, len(found))
	for i := range found {
		matches[i] = found[i].Match
	}
	return trim(matches, q)
}

func trim(found []Match, q Query) []Match {
	seen, fastest := make(map[string]bool), make(map[string][2]float64)
	kept := found[:0]
	for _, m := range found {
		group := m.Market.String()
		switch q.CheapestPer {
		case PerZone:
			group += m.Place() + m.Zone
		case PerRegion:
			group += m.Place()
		case PerCloud:
			group += m.Cloud
		}
		if q.Limit > 0 && len(kept) == q.Limit {
			continue
		}
		most, speed, slow := fastest[group], cmp.Or(m.Speed, 1), cmp.Or(m.SlowSpeed, 1)
		fastest[group] = [2]float64{max(most[0], speed), max(most[1], slow)}
		if q.CheapestPer != PerOffer && seen[group] && !(q.Faster && (speed > most[0] || slow > most[1])) {
			continue
		}
		seen[group] = true
		kept = append(kept, m)
	}
	return kept
}

// sampleCatalog returns a tenth of the snapshot: some machine types, with all of their places. It is small enough to
// check every offer, and large enough that each search strategy is used by some query.
func sampleCatalog(t testing.TB) *Catalog {
	t.Helper()
	full := snapshot(t)
	b := table.NewBuilder()
	for i := range full.cols.Len() {
		m := full.cols.Machines[full.cols.Machine[i]]
		p := &full.cols.Places[full.cols.Place[i]]
		if m.Accelerator == "" && full.cols.Machine[i]%9 != 0 {
			continue
		}
		o := table.Offer{OnDemand: full.cols.Prices[full.cols.OnDemand[i]], Band: full.cols.Band[i]}
		if s := full.cols.Spot[i]; s > 0 {
			o.Spot = full.cols.Prices[s-1]
		}
		if err := b.Add(m, table.Place{Cloud: p.Cloud, Region: p.Region, Zone: p.Zone}, o); err != nil {
			t.Fatal(err)
		}
	}
	cols, err := b.Columns()
	if err != nil {
		t.Fatal(err)
	}
	return newCatalog(cols)
}

func drawQuery(t *rapid.T, c *Catalog) Query {
	maybe := func(what string) bool { return rapid.IntRange(0, 7).Draw(t, what+"?") == 0 }
	size := func(what string, values ...float64) Range {
		if !rapid.Bool().Draw(t, what+"?") {
			return Range{}
		}
		lo := rapid.SampledFrom(values).Draw(t, what)
		switch rapid.IntRange(0, 2).Draw(t, what+" form") {
		case 0:
			return Exactly(lo)
		case 1:
			return AtLeast(lo)
		default:
			return Range{Min: lo, Max: 4 * lo}
		}
	}
	one := func(what string, names []string) []string {
		if !maybe(what) {
			return nil
		}
		return rapid.SliceOfN(rapid.SampledFrom(names), 1, 2).Draw(t, what)
	}
	q := Query{
		VCPU:      size("vcpu", 1, 2, 3, 4, 8, 64, 96, 224),
		MemoryGiB: size("memory", 0.5, 4, 16, 32, 61, 1000),
		Clouds:    one("clouds", append(c.Clouds(), "nowhere")),
		Regions:   one("regions", append(c.Regions(""), "us-east-1", "eastus", "nowhere")),
		Zones:     one("zones", []string{"use1-az1", "us-central1-a", "gcp:us-central1-b", "nowhere"}),
		Market:    rapid.SampledFrom([]Market{AnyMarket, OnDemand, Spot}).Draw(t, "market"),
	}
	if maybe("accelerator") {
		q.Accelerator = rapid.SampledFrom([]string{"V100", "nvidia-t4", "A10", "tpu-v5e-4", "GH200", "K80", AnyAccelerator}).Draw(t, "accelerator")
		if q.Accelerator != AnyAccelerator {
			q.AcceleratorCount = rapid.SampledFrom([]float64{0, 1, 3, 8, 0.5}).Draw(t, "count")
		}
	}
	if maybe("type") {
		q.InstanceType = c.cols.Machines[rapid.IntRange(0, len(c.cols.Machines)-1).Draw(t, "type")].InstanceType
	}
	if maybe("family") {
		q.Family = rapid.SampledFrom([]string{"c7a", "n2d", "Das_v5", "m5", "g4dn", "none"}).Draw(t, "family")
	}
	if maybe("cpu") {
		q.CPU = rapid.SampledFrom([]string{"genoa", "Milan", "graviton3", "turin/core"}).Draw(t, "cpu")
	}
	if maybe("arch") {
		q.Arch = rapid.SampledFrom([]Arch{AMD64, ARM64}).Draw(t, "arch")
	}
	if maybe("service") {
		q.Service = rapid.SampledFrom([]Service{EMR, Dataproc}).Draw(t, "service")
	}
	if maybe("interruption") {
		q.MaxInterruption = InterruptionBand(rapid.IntRange(1, 5).Draw(t, "interruption"))
	}
	if maybe("carbon") {
		q.MaxCarbonGPerKWh = rapid.SampledFrom([]float64{1, 20, 323.05, 400}).Draw(t, "carbon")
	}
	if maybe("keep") {
		last := rapid.SampledFrom([]string{"1", "e", "x"}).Draw(t, "keep")
		q.Keep = func(m *Match) bool { return !strings.HasSuffix(m.InstanceType, last) }
	}
	q.CheapestPer = rapid.SampledFrom([]Scope{PerOffer, PerOffer, PerZone, PerRegion, PerCloud}).Draw(t, "per")
	q.Faster = rapid.Bool().Draw(t, "faster")
	q.Limit = rapid.SampledFrom([]int{0, 1, 10, 500}).Draw(t, "limit")
	return q
}

func TestFindMatchesOracle(t *testing.T) {
	c := sampleCatalog(t)
	all := newOracle(c)
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t, c)
		want := all.find(q)
		got, err := c.Find(q)
		if len(want) == 0 {
			var none *NoOfferError
			if !errors.As(err, &none) || got != nil {
				t.Fatalf("nothing matches %+v, Find says %d matches, %v", q, len(got), err)
			}
			for _, r := range none.Relaxations {
				if r.Matches == 0 || r.Text == "" {
					t.Fatalf("relaxation %+v of %+v offers nothing", r, q)
				}
			}
			return
		}
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v:\ngot\n%swant\n%s", q, ids(got), ids(want))
		}
	})
}

func TestEverySearchStrategyMatchesOracle(t *testing.T) {
	c := sampleCatalog(t)
	all := newOracle(c)
	for way, q := range map[string]Query{
		"machines":          {Accelerator: "V100", MaxInterruption: Interruption10To15},
		"machines to limit": {VCPU: AtLeast(48), MemoryGiB: AtLeast(100), Limit: 7},
		"cheapest":          {VCPU: AtLeast(3), MemoryGiB: AtLeast(13), CheapestPer: PerRegion, Market: Spot},
		"places":            {VCPU: AtLeast(2), Clouds: []string{"aws", "gcp"}, Regions: []string{"us-east-1", "us-central1"}},
		"walk":              {VCPU: AtLeast(8), MemoryGiB: AtLeast(33), Arch: AMD64, MaxCarbonGPerKWh: 330},
	} {
		if got := wayOf(c, q); got != way {
			t.Errorf("%+v uses the strategy %q, not %q: the test needs another query", q, got, way)
		}
		got, err := c.Find(q)
		if want := all.find(q); err != nil || len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v):\ngot\n%swant\n%s", way, q, err, ids(got), ids(want))
		}
	}
}

// wayOf returns the search strategy that run uses for a query.
func wayOf(c *Catalog, q Query) string {
	s := newScratch(c)
	if err := s.filter.compile(c, &q); err != nil {
		return err.Error()
	}
	f := &s.filter
	switch {
	case len(f.machines) == 0 || len(f.places) == 0:
		return "nothing"
	case f.machineEntries <= selectiveEntries:
		return "machines"
	case q.CheapestPer == PerOffer && f.entriesForLimit(q.Limit) <= selectiveEntries:
		return "machines to limit"
	case q.CheapestPer != PerOffer:
		return "cheapest"
	case f.placeEntries <= selectiveEntries:
		return "places"
	default:
		return "walk"
	}
}

func TestFindExcludesAcceleratorsByDefault(t *testing.T) {
	c := snapshot(t)
	found, err := c.Find(Query{VCPU: AtLeast(64), Market: Spot})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(found, func(m Match) bool { return m.Accelerator != "" }); i >= 0 {
		t.Errorf("the query did not ask for %s", found[i].ID())
	}
	found, err = c.Find(Query{VCPU: AtLeast(64), Market: Spot, Accelerator: AnyAccelerator})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(m Match) bool { return m.Accelerator != "" }) {
		t.Error("AnyAccelerator found no accelerator")
	}
}

func TestFindExcludesHostsTooSmallForTheirGPUs(t *testing.T) {
	c := snapshot(t)
	cheapest := func(q Query) *Match {
		q.Clouds, q.Accelerator, q.AcceleratorCount, q.Market, q.Limit = []string{"gcp"}, "V100", 8, OnDemand, 1
		found, err := c.Find(q)
		if err != nil {
			t.Fatal(err)
		}
		return &found[0]
	}
	for want, q := range map[string]Query{
		"n1-standard-32": {},
		"n1-standard-1":  {VCPU: AtLeast(1)},
		"n1-highcpu-16":  {VCPU: AtLeast(16)},
		"n1-highcpu-2":   {InstanceType: "n1-highcpu-2"},
	} {
		if got := cheapest(q); got.InstanceType != want {
			t.Errorf("%+v: cheapest is %s, want %s", q, got.ID(), want)
		}
	}
}

func TestFindAcceptsRegionsQualifiedByCloud(t *testing.T) {
	c := snapshot(t)
	clouds := func(q Query) []string {
		found, err := c.Find(q)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range found {
			names = append(names, m.Cloud)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if got := clouds(Query{Accelerator: AnyAccelerator, Regions: []string{"us-east-1"}}); !slices.Equal(got, []string{"aws", "lambda"}) {
		t.Errorf("us-east-1 belongs to %v", got)
	}
	if got := clouds(Query{Accelerator: AnyAccelerator, Regions: []string{"AWS:us-east-1"}}); !slices.Equal(got, []string{"aws"}) {
		t.Errorf("AWS:us-east-1 belongs to %v", got)
	}
}

func TestVisitStopsAndResetsState(t *testing.T) {
	c := snapshot(t)
	for _, q := range []Query{
		{Accelerator: "V100"},
		{VCPU: AtLeast(8), CheapestPer: PerZone},
		{VCPU: AtLeast(8), Limit: 3000},
	} {
		want, err := c.Find(q)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := c.Visit(q, func(*Match) bool { n++; return n < 3 }); err != nil || n != 3 {
			t.Errorf("visited %d, %v", n, err)
		}
		got, err := c.Find(q)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after a stopped visit, %+v has %d matches instead of %d (%v)", q, len(got), len(want), err)
		}
	}
}

func TestVisitCanBeNested(t *testing.T) {
	c := snapshot(t)
	inner := 0
	err := c.Visit(Query{Accelerator: "V100", AcceleratorCount: 8, CheapestPer: PerCloud}, func(m *Match) bool {
		found, err := c.Find(Query{Accelerator: "T4", Clouds: []string{m.Cloud}, Limit: 1})
		if err == nil {
			inner += len(found)
		}
		return true
	})
	if err != nil || inner == 0 {
		t.Errorf("%d inner matches, %v", inner, err)
	}
}

func TestConcurrentQueries(t *testing.T) {
	c, err := ReadSnapshot(embeddedSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	same := snapshot(t)
	var wg sync.WaitGroup
	for name, q := range typicalQueries {
		for range 2 {
			wg.Go(func() {
				got, err := c.Find(q)
				want, _ := same.Find(q)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %d matches, want %d (%v)", name, len(got), len(want), err)
				}
			})
		}
	}
	wg.Wait()
}

func TestQueryJSON(t *testing.T) {
	want := Query{
		VCPU: AtLeast(8), Accelerator: "V100", AcceleratorCount: 1, Clouds: []string{"aws"}, Arch: AMD64, Market: Spot,
		Service: EMR, MaxInterruption: Interruption5To10, CheapestPer: PerRegion, Limit: 3,
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{`"market":"spot"`, `"maxInterruption":"5-10%"`, `"cheapestPer":"region"`} {
		if !strings.Contains(string(text), words) {
			t.Errorf("%s lacks %s", text, words)
		}
	}
	var got Query
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"cheapestPer":"planet"}`), &got); err == nil {
		t.Error("planet parses as a scope")
	}
}

func TestVisitDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	c := snapshot(t)
	for name, q := range typicalQueries {
		visit := func(*Match) bool { return true }
		if n := testing.AllocsPerRun(20, func() { _ = c.Visit(q, visit) }); n >= 1 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

func TestFindRejectsInvalidQueries(t *testing.T) {
	c := snapshot(t)
	nan := 0.0
	nan /= nan
	for field, q := range map[string]Query{
		"vcpu":             {VCPU: Range{Min: 8, Max: 4}},
		"memoryGiB":        {MemoryGiB: AtLeast(-1)},
		"acceleratorCount": {AcceleratorCount: 8},
		"accelerator":      {Accelerator: "V10O"},
		"arch":             {Arch: "mips"},
		"service":          {Service: "athena"},
		"limit":            {Limit: -1},
		"maxCarbonGPerKWh": {MaxCarbonGPerKWh: nan},
		"market":           {Market: 9},
		"cheapestPer":      {CheapestPer: 9},
		"maxInterruption":  {MaxInterruption: 99},
	} {
		_, err := c.Find(q)
		var bad *QueryError
		if !errors.As(err, &bad) || bad.Field != field || !errors.Is(err, ErrBadQuery) {
			t.Errorf("%+v: %v, want a *QueryError about %s", q, err, field)
		}
	}
	_, err := c.Find(Query{Accelerator: "V10O"})
	var unknown *accel.UnknownError
	if !errors.As(err, &unknown) || !slices.Contains(unknown.Suggestions, "V100") {
		t.Errorf("%v: want a suggestion of V100", err)
	}
}
