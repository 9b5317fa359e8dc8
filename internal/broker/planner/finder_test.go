package planner_test

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// price returns the planner's price of a machine with the default disk, in USD per hour.
func price(m *catalog.Match) float64 {
	return m.USDPerHour + catalog.AttachedUSD(m.Cloud, cloud.DefaultDiskGiB, m.Market)
}

// took returns the hours that some hours of work at speed 1 take on a machine without accelerators, including its
// boot.
func took(m *catalog.Match, hours float64) float64 {
	return m.BootSeconds/3600 + hours/cmp.Or(m.Speed, 1)
}

// billed returns the cost in USD of holding a machine for some hours.
func billed(m *catalog.Match, hours float64) float64 {
	return hardware.BillingOf(m.Cloud).BilledHours(hours) * price(m)
}

// bestOf returns the minimum of value over all offers that match a query.
func bestOf(t *testing.T, c *catalog.Catalog, q catalog.Query, value func(*catalog.Match) float64) float64 {
	t.Helper()
	best := math.Inf(1)
	if err := c.Visit(q, func(m *catalog.Match) bool { best = math.Min(best, value(m)); return true }); err != nil {
		t.Fatal(err)
	}
	return best
}

// For a task of weeks without checkpoints, the rate of interruptions matters as much as the price.
func TestPlanChoosesSpotOfferWithLeastExpectedCost(t *testing.T) {
	p, c := newPlanner(t)
	const long = "tasks:\n  a: {run: x, time: 500h, resources: {cpus: 8+, cloud: aws, market: spot}}\n"
	got := plan(t, p, planinput.Input{Spec: readJob(t, long)})
	q := catalog.Query{Clouds: []string{"aws"}, VCPU: catalog.AtLeast(8), Market: catalog.Spot, Arch: catalog.AMD64}
	restart := config.Default().Restart.Hours()
	best := bestOf(t, c, q, func(m *catalog.Match) float64 {
		rate, ok := m.Interruption.PreemptionsPerHour()
		if !ok {
			rate, _ = catalog.Interruption10To15.PreemptionsPerHour()
		}
		if m.Burstable {
			return math.Inf(1) // not for sale to this task
		}
		work := 500 / cmp.Or(m.Speed, 1)
		quote, ok := bidding.Spot(bidding.Run{Hours: work, RestartHours: restart, PreemptionsPerHour: rate, Nodes: 1})
		if !ok {
			return math.Inf(1)
		}
		return billed(m, m.BootSeconds/3600+quote.Held)
	})
	if math.Abs(got.USD-best) > 1e-9*best {
		t.Errorf("%s is expected to cost %v USD, the best offer %v", got.Of(0).ID, got.USD, best)
	}
}

func TestPlanLeavesZoneThatBecameExpensive(t *testing.T) {
	p, c := newPlanner(t)
	spec := readJob(t, "regions: ['aws:us-east-2']\n"+with(", market: spot"))
	first := plan(t, p, planinput.Input{Spec: spec})
	id := strings.TrimSuffix(first.Of(0).ID, "/spot")
	dear := map[string]record.MarketRecord{id: {Offer: id, USD: 50}}
	got := plan(t, p, planinput.Input{Spec: spec, Previous: first, Markets: dear})
	q := catalog.Query{Regions: []string{"aws:us-east-2"}, Accelerator: "T4", AcceleratorCount: 1, Market: catalog.Spot}
	best := bestOf(t, c, q, func(m *catalog.Match) float64 {
		if m.Offer.ID() == id {
			return 50
		}
		return price(m)
	})
	if usd := got.Of(0).Offer.USDPerHour; usd != best {
		t.Errorf("%s at %v USD an hour, the best in the region is %v", got.Of(0).ID, usd, best)
	}
}

func TestPlanKeepsCurrentOfferAmongEquals(t *testing.T) {
	p, c := newPlanner(t)
	const one = "regions: ['aws:us-east-1']\ntasks:\n  a: {run: x, time: 1h, resources: {cpus: 8, memory: 32, market: on-demand}}\n"
	spec := readJob(t, one)
	first := plan(t, p, planinput.Input{Spec: spec})
	q := catalog.Query{Regions: []string{"aws:us-east-1"}, VCPU: catalog.Exactly(8), MemoryGiB: catalog.Exactly(32), Market: catalog.OnDemand}
	twin := ""
	err := c.Visit(q, func(m *catalog.Match) bool {
		if price(m) == first.Of(0).Offer.USDPerHour && m.ID() != first.Of(0).ID {
			twin = m.ID()
		}
		return true
	})
	if err != nil || twin == "" {
		t.Fatal("no two machines cost the same there: ", err)
	}
	previous := *first
	previous.Offers = append([]record.Planned(nil), first.Offers...)
	previous.Offers[0].ID = twin
	if got := plan(t, p, planinput.Input{Spec: spec, Previous: &previous}); got.Of(0).ID != twin {
		t.Errorf("moved from %s to %s, which is no cheaper", twin, got.Of(0).ID)
	}
}

func TestLeastCarbonConsidersAllOffers(t *testing.T) {
	clean, c := plannerWith(t, func(opt *planner.Options) { opt.LeastCarbon = true })
	spec := readJob(t, "tasks:\n  a: {run: x, time: 3h, resources: {cpus: 6+, memory: 10+, market: on-demand}}\n")
	in := planinput.Input{Spec: spec, Now: time.Unix(0, 0)}
	got := plan(t, clean, in)
	q := catalog.Query{VCPU: catalog.AtLeast(6), MemoryGiB: catalog.AtLeast(10), Market: catalog.OnDemand, Arch: catalog.AMD64}
	best := bestOf(t, c, q, func(m *catalog.Match) float64 {
		if m.CarbonGPerKWh == 0 || m.Burstable {
			return math.Inf(1)
		}
		return took(m, 3) * 1.15 * (2.1*m.VCPU + 0.392*m.MemoryGiB) / 1000 * m.CarbonGPerKWh / 1000
	})
	if kg := clean.Emissions(in, got); math.Abs(kg-best) > 1e-9*best {
		t.Errorf("%s emits %v kg, the cleanest offer %v", got.Of(0).ID, kg, best)
	}
	capped, _ := plannerWith(t, func(opt *planner.Options) { opt.CarbonCapKg = &best })
	got = plan(t, capped, in)
	if got.Status == record.PlanInfeasible || clean.Emissions(in, got) > best*(1+1e-9) {
		t.Errorf("a cap at the minimum: %s %s", got.Status, got.Message)
	}
}

// Burstable machines are chosen only if the job file names their type. Their vCPUs run at a fraction of their speed
// when busy, so the price of a task's hours would be wrong. Sources: Azure, "B family VM size series"; Compute
// Engine, "Shared-core machine types".
func TestBurstableTypesOfOtherCloudsAreBoughtByNameOnly(t *testing.T) {
	p, _ := newPlanner(t)
	for cloud, kind := range map[string]string{"azure": "Standard_B2s", "gcp": "f1-micro"} {
		task := "tasks:\n  a: {run: x, time: 1h, resources: {cpus: 1+, cloud: " + cloud + "%s}}\n"
		any := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task, ""))}).Of(0)
		if hardware.Baseline(cloud, any.Offer.InstanceType) < 1 {
			t.Errorf("planned on %s, which the task does not name", any.Offer.InstanceType)
		}
		named := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task, ", instanceType: "+kind))}).Of(0)
		if cloud == "gcp" && named == nil { // less than one vCPU
			named = plan(t, p, planinput.Input{Spec: readJob(t, "tasks: {a: {run: x, time: 1h, resources: {instanceType: f1-micro}}}")}).Of(0)
		}
		if named == nil || named.Offer.InstanceType != kind {
			t.Errorf("%s is not offered to a task that names it: %+v", kind, named)
		}
	}
}

// Sources: EC2 User Guide, "Key concepts for burstable performance instances" (t3.nano: 2 vCPUs, baseline 5%), and EC2
// on-demand pricing, "T2/T3/T4g Unlimited Mode Pricing" (0.05 USD for each vCPU-hour above it, T4g 0.04).
func TestBurstableTypesAreBoughtByNameAtFullPrice(t *testing.T) {
	p, c := newPlanner(t)
	const task = "tasks:\n  a: {run: x, time: 1h, resources: {cpus: 2+, cloud: aws, region: us-east-1, market: %s%s}}\n"
	for _, market := range []string{"spot", "on-demand"} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task, market, ""))})
		if kind := got.Of(0).Offer.InstanceType; strings.HasPrefix(kind, "t") && !strings.HasPrefix(kind, "trn") {
			t.Errorf("%s: planned on %s, which the task does not name", market, kind)
		}
		named := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task, market, ", instanceType: t3.nano"))}).Of(0)
		if named == nil {
			t.Fatalf("%s: t3.nano is not offered to a task that names it", market)
		}
		m, err := c.Lookup(strings.TrimSuffix(named.ID, "/"+market) + "/" + market)
		if err != nil {
			t.Fatal(err)
		}
		m.Market = map[string]catalog.Market{"spot": catalog.Spot, "on-demand": catalog.OnDemand}[market]
		want := m.USDPerHour + 2*0.95*0.05 + catalog.AttachedUSD("aws", cloud.DefaultDiskGiB, m.Market)
		if math.Abs(named.Offer.USDPerHour-want) > 1e-9 {
			t.Errorf("%s: %v USD an hour, want %v", market, named.Offer.USDPerHour, want)
		}
	}
}

func TestBurstableAndArmTypesAreBoughtIfTaskAsks(t *testing.T) {
	p, _ := newPlanner(t)
	const task = "tasks:\n  a: {run: x, time: 1h, resources: {cpus: 2, cloud: aws, region: us-east-1, market: on-demand%s}}\n"
	chosen := func(more string) apitypes.Offer {
		t.Helper()
		c := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task, more))}).Of(0)
		if c == nil {
			t.Fatalf("%q has no plan", more)
		}
		return c.Offer
	}
	for more, want := range map[string]struct{ burstable, arm bool }{
		"": {}, ", arch: any": {arm: true}, ", arch: arm64": {arm: true},
	} {
		o := chosen(more)
		arm := strings.Contains(strings.Split(o.InstanceType, ".")[0], "g")
		if got := hardware.Baseline("aws", o.InstanceType) < 1; got != want.burstable || arm != want.arm {
			t.Errorf("%q is planned on %s", more, o.InstanceType)
		}
	}
	few := readJob(t, fmt.Sprintf(task, ", burstable: true, memory: =1"))
	if c := plan(t, p, planinput.Input{Spec: few}).Of(0); c == nil || hardware.Baseline("aws", c.Offer.InstanceType) >= 1 {
		t.Errorf("a size that only burstable types have: %+v", c)
	}
	none := readJob(t, fmt.Sprintf(task, ", memory: =1"))
	if got, err := p.Plan(t.Context(), planinput.Input{Spec: none}); err == nil && got.Of(0) != nil {
		t.Errorf("without burstable, it is planned on %s", got.Of(0).Offer.InstanceType)
	}
}
