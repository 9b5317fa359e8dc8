package planner_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func newPlanner(t testing.TB) (*planner.Planner, *catalog.Catalog) {
	t.Helper()
	return plannerWith(t, func(*planner.Options) {})
}

// plannerWith returns a planner of the shipped catalogue with changed options, and the catalogue.
func plannerWith(t testing.TB, set func(*planner.Options)) (*planner.Planner, *catalog.Catalog) {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := planner.DefaultOptions()
	opt.Now = nil
	set(&opt)
	return planner.New(c, moves, opt), c
}

func readJob(t interface {
	Helper()
	Fatal(...any)
}, text string) *dag.Job {
	t.Helper()
	j, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func plan(t testing.TB, p *planner.Planner, in planinput.Input) *record.Plan {
	t.Helper()
	if in.Now.IsZero() {
		in.Now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	}
	got, err := p.Plan(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const train = `
tasks:
  train: {run: x, time: 2h, resources: {accelerators: T4:1%s}, checkpoint: {every: 15m, path: c}}
`

func with(more string) string { return strings.Replace(train, "%s", more, 1) }

func TestPlanChoosesCheapestOffer(t *testing.T) {
	p, c := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, with(", market: on-demand"))})
	best, fastest := math.Inf(1), 0.0
	err := c.Visit(catalog.Query{Accelerator: "T4", AcceleratorCount: 1, Market: catalog.OnDemand}, func(m *catalog.Match) bool {
		hours := 2 + m.BootSeconds/3600 // tasks with accelerators take equally long everywhere
		if usd := billed(m, hours); usd < best {
			best, fastest = usd, hours
		} else if usd == best {
			fastest = min(fastest, hours)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != "optimal" || math.Abs(got.USD-best) > 1e-9 || math.Abs(got.Hours-fastest) > 1e-9 ||
		got.OnDemandUSD != got.USD {
		t.Errorf("%+v, the cheapest is %v", got, best)
	}
}

func TestPlanChoosesSpotIfExpectedCheaper(t *testing.T) {
	p, _ := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, with(""))})
	c := got.Of(0)
	if !c.Offer.Spot || got.USD >= got.OnDemandUSD || got.TaskHours[0] <= 2 {
		t.Errorf("%+v at %v USD, on demand %v", c, got.USD, got.OnDemandUSD)
	}
	if !strings.HasSuffix(c.ID, "/spot") || c.OnDemandUSD <= c.Offer.USDPerHour {
		t.Errorf("%+v", c)
	}
}

func TestPlanUsesOnDemandForTightDeadline(t *testing.T) {
	p, _ := newPlanner(t)
	for hours, spot := range map[float64]bool{2.1: false, 3: true} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, with("")), DeadlineHours: &hours})
		if got.Of(0).Offer.Spot != spot {
			t.Errorf("deadline %v h: %s", hours, got.Of(0).ID)
		}
		if got.Hours > hours {
			t.Errorf("deadline %v h: expected to take %v", hours, got.Hours)
		}
	}
}

func TestPlanAvoidsBlockedLocation(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, with(""))
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	var blocks []apitypes.Block
	for range 20 {
		got := plan(t, p, planinput.Input{Spec: spec, Blocks: blocks, Now: now})
		o := got.Of(0).Offer
		if seen[got.Of(0).ID] {
			t.Fatalf("%s was planned though it is blocked", got.Of(0).ID)
		}
		seen[got.Of(0).ID] = true
		blocks = append(blocks, apitypes.Block{
			Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType, Kind: string(cloud.Capacity),
			Market: string(record.Market(o)), Until: now.Add(time.Hour),
		})
	}
	first := plan(t, p, planinput.Input{Spec: spec, Blocks: blocks, Now: now.Add(time.Hour)})
	if !seen[first.Of(0).ID] {
		t.Error("expired blocks still apply")
	}
}

func TestPlanStaysInAllowedRegions(t *testing.T) {
	p, _ := newPlanner(t)
	for _, regions := range []string{"[gcp:europe-west4]", "[azure]", "['aws:eu-west-1', 'gcp:europe-west1']"} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, "regions: "+regions+"\n"+with(""))})
		if got.Status == record.PlanInfeasible {
			t.Errorf("%s: %s", regions, got.Message)
			continue
		}
		o := got.Of(0).Offer
		if !strings.Contains(regions, o.Cloud+":"+o.Region) && !strings.Contains(regions, "["+o.Cloud+"]") {
			t.Errorf("%s: planned on %s", regions, got.Of(0).ID)
		}
	}
}

const pair = `
tasks:
  a: {run: x, time: 1h, resources: {cpus: 4+}, outputs: [{name: data, size: 5000GiB}]}
  b: {run: x, time: 1h, resources: {accelerators: T4:1}, after: [a]}
`

func TestPlanMovesWorkToData(t *testing.T) {
	p, _ := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, pair)})
	if a, b := got.Of(0).Offer, got.Of(1).Offer; a.Cloud != b.Cloud || a.Region != b.Region {
		t.Errorf("5,000 GiB are moved from %s to %s", got.Of(0).ID, got.Of(1).ID)
	}
	done := []*planinput.Facts{{Done: true, Place: "gcp:europe-west4"}, nil}
	got = plan(t, p, planinput.Input{Spec: readJob(t, pair), Tasks: done, Previous: got})
	if b := got.Of(1).Offer; b.Cloud != "gcp" || b.Region != "europe-west4" {
		t.Errorf("the data is in europe-west4 and the work in %s", got.Of(1).ID)
	}
	if got.Of(0) != nil {
		t.Error("a finished task is planned again")
	}
}

func TestPlanMovesWorkToInputBucket(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, `
tasks:
  a: {run: x, time: 10m, resources: {cpus: 4+}, inputs: [{uri: 's3://data?region=eu-central-1', size: 9000GiB}]}
`)
	got := plan(t, p, planinput.Input{Spec: spec})
	if o := got.Of(0).Offer; o.Cloud != "aws" || o.Region != "eu-central-1" {
		t.Errorf("planned on %s", got.Of(0).ID)
	}
}

func TestPlanKeepsPlaceOfRunningTask(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, with(""))
	first := plan(t, p, planinput.Input{Spec: spec})
	o := first.Of(0).Offer
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	in := planinput.Input{
		Spec: spec, Previous: first, Now: now,
		Blocks: []apitypes.Block{{Cloud: o.Cloud, Kind: string(cloud.Auth), Until: now.Add(time.Hour)}},
		Tasks:  []*planinput.Facts{{Fixed: true, Place: o.Cloud + ":" + o.Region, Hours: 1}},
	}
	if got := plan(t, p, in); got.Of(0) == nil || got.Of(0).ID != first.Of(0).ID || got.USD != 0 {
		t.Errorf("%+v", got)
	}
}

func TestPlanCountsOnlyRemainingWork(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, with(", market: on-demand"))
	whole := plan(t, p, planinput.Input{Spec: spec})
	half := plan(t, p, planinput.Input{Spec: spec, Tasks: []*planinput.Facts{{Progress: 0.5}}})
	boot, usd := whole.Hours-2, whole.Of(0).Offer.USDPerHour // the boot is part of both
	if second := usd / 3600; math.Abs(half.USD-whole.USD+usd) > second || math.Abs(half.Hours-1-boot) > 1e-9 {
		t.Errorf("whole %v, half %v", whole.USD, half.USD)
	}
}

func TestPlanTakesOrderedAlternativesInTurn(t *testing.T) {
	p, _ := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, `
tasks:
  a: {run: x, time: 1h, resources: {ordered: [{accelerators: T4:3}, {accelerators: A100-80GB:8}, {accelerators: T4:1}]}}
`)})
	if got.Of(0).Offer.Accelerator != "A100-80GB" {
		t.Errorf("planned on %s", got.Of(0).ID)
	}
}

func TestPlanUsesTimesPerMachine(t *testing.T) {
	p, _ := newPlanner(t)
	for times, want := range map[string]string{"{V100: 1h, T4: 30h}": "V100", "{V100: 30h, T4: 1h}": "T4"} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, `
tasks:
  a: {run: x, time: `+times+`, resources: {market: on-demand, anyOf: [{accelerators: V100:1}, {accelerators: T4:1}]}}
`)})
		if got.Of(0).Offer.Accelerator != want {
			t.Errorf("%s: planned on %s", times, got.Of(0).ID)
		}
	}
}

// A time whose default is none excludes all machines that it does not name. Machines with the same accelerators may
// have different times. The plan must be the cheapest over all machines that have a time.
func TestPlanKeepsToMachinesWithTime(t *testing.T) {
	p, c := newPlanner(t)
	const task = "tasks:\n  a: {run: x, resources: {accelerators: A10G:1, market: on-demand}, time: %s}\n"
	times := map[string]float64{"g5.xlarge": 5, "g5.2xlarge": 2, "g5.4xlarge": 4}
	got := plan(t, p, planinput.Input{Spec: readJob(t, fmt.Sprintf(task,
		"{g5.xlarge: 5h, g5.2xlarge: 2h, g5.4xlarge: 4h, default: none}"))})
	best := math.Inf(1)
	for name, hours := range times {
		best = min(best, bestOf(t, c, catalog.Query{InstanceType: name, Market: catalog.OnDemand},
			func(m *catalog.Match) float64 { return billed(m, m.BootSeconds/3600+hours) }))
	}
	if math.Abs(got.USD-best) > 1e-9 || got.Of(0).Offer.InstanceType != "g5.2xlarge" {
		t.Errorf("planned on %s for %g USD, the best is %g", got.Of(0).ID, got.USD, best)
	}
	none, err := p.Plan(context.Background(), planinput.Input{Spec: readJob(t, fmt.Sprintf(task,
		"{V100: 1h, default: none}"))})
	if err != nil || none.Status != record.PlanInfeasible || !strings.Contains(none.Message, "default of its time is none") {
		t.Errorf("%+v, %v", none, err)
	}
}

// Each machine type that fits is listed once, at its cheapest place. A plan must accept its key.
func TestOffersOfTaskMatchCatalog(t *testing.T) {
	p, c := newPlanner(t)
	for resources, q := range map[string]catalog.Query{
		"{accelerators: V100:4}":           {Accelerator: "V100", AcceleratorCount: 4},
		"{accelerators: T4:1, cloud: gcp}": {Accelerator: "T4", AcceleratorCount: 1, Clouds: []string{"gcp"}},
		"{cpus: =8, memory: 64+, market: spot}": {VCPU: catalog.Exactly(8), MemoryGiB: catalog.AtLeast(64),
			Market: catalog.Spot, Arch: catalog.AMD64},
		"{accelerators: H100:8, region: mars-1}": {Accelerator: "H100", AcceleratorCount: 8, Regions: []string{"mars-1"}},
	} {
		spec := readJob(t, "tasks:\n  a: {run: x, time: {K80: 1h, default: none}, resources: "+resources+"}\n")
		got, err := p.Offers(planinput.Input{Spec: spec}, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{}
		if err := c.Visit(q, func(m *catalog.Match) bool {
			key := m.InstanceType
			if m.Attached {
				key = dag.AcceleratorKey(m.Accelerator, m.AcceleratorCount)
			}
			if usd, has := want[key]; !m.Burstable && (!has || m.USDPerHour < usd) {
				want[key] = m.USDPerHour
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		for _, o := range got {
			if o.USDPerHour != want[o.TimeKey] || o.TimeKey == "" {
				t.Errorf("%s: %s costs %g as %q, want %g", resources, o.ID, o.USDPerHour, o.TimeKey, want[o.TimeKey])
			}
		}
		if len(got) != len(want) || len(want) == 0 != strings.Contains(resources, "mars") {
			t.Errorf("%s: %d offers, want %d", resources, len(got), len(want))
		}
	}
}

func TestPlanTimesTasksByRatingOfAccelerators(t *testing.T) {
	p, c := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, `
tasks:
  a:
    run: x
    nodes: 2
    time: {flops: 3e18, efficiency: 0.4}
    resources:
      market: on-demand
      anyOf: [{accelerators: V100:1}, {accelerators: A100:8}, {accelerators: T4:4}, {accelerators: RTX6000:1}]
`)})
	best := math.Inf(1)
	for name, count := range map[string]float64{"V100": 1, "A100": 8, "T4": 4} {
		q := catalog.Query{Accelerator: name, AcceleratorCount: count, Market: catalog.OnDemand}
		if err := c.Visit(q, func(m *catalog.Match) bool {
			hours := 3e18 / (2 * count * accel.TFLOPS(name) * 1e12) / 0.4 / 3600
			best = min(best, 2*billed(m, hours+m.BootSeconds/3600))
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if math.Abs(got.TaskUSD[0]-best) > 1e-6 {
		t.Errorf("%s for %v USD, the best costs %v", got.Of(0).ID, got.TaskUSD[0], best)
	}
	want := []string{"a: the alternative RTX6000 is left out: its rating, which time.flops needs, is unknown"}
	if !slices.Equal(got.Notes, want) {
		t.Errorf("%q", got.Notes)
	}
	none := plan(t, p, planinput.Input{Spec: readJob(t, `
tasks:
  a: {run: x, time: {flops: 3e18}, resources: {accelerators: RTX6000:1}}
`)})
	if !strings.Contains(none.Message, "(RTX6000 has none)") {
		t.Errorf("%s: %s", none.Status, none.Message)
	}
}

func TestPlanKeepsToFamilyAndProcessor(t *testing.T) {
	p, _ := newPlanner(t)
	for resources, is := range map[string]func(o apitypes.Offer) bool{
		"{family: c7g}": func(o apitypes.Offer) bool { return strings.HasPrefix(o.InstanceType, "c7g.") },
		"{family: t3}":  func(o apitypes.Offer) bool { return strings.HasPrefix(o.InstanceType, "t3.") },
		"{cpu: genoa}": func(o apitypes.Offer) bool {
			cpu, _ := hardware.CPU(o.Cloud, o.InstanceType)
			return hardware.IsCPU(cpu, "genoa")
		},
		"{family: Dasv5, cpus: 8}": func(o apitypes.Offer) bool { return o.InstanceType == "Standard_D8as_v5" },
	} {
		got := plan(t, p, planinput.Input{Spec: readJob(t, "tasks: {a: {run: x, resources: "+resources+"}}\n")})
		if c := got.Of(0); c == nil || !is(c.Offer) {
			t.Errorf("%s: %s %+v", resources, got.Message, c)
		}
	}
	none := plan(t, p, planinput.Input{Spec: readJob(t, "tasks: {a: {run: x, resources: {family: c77a}}}\n")})
	if !strings.Contains(none.Message, "family c77a") || !strings.Contains(none.Message, "c7a") {
		t.Error(none.Message)
	}
}

// The more an hour is worth, the faster and more expensive is the plan. No plan for another value of an hour may have
// a smaller sum of cost and weighted time.
func TestWeightsTradeCostForTime(t *testing.T) {
	p, _ := newPlanner(t)
	hours := []string{"0", "0.1", "1", "5", "50", "1000"}
	plans := make([]*record.Plan, len(hours))
	for i, hour := range hours {
		plans[i] = plan(t, p, planinput.Input{Spec: readJob(t, `
weights: {cost: 1, time: `+hour+`}
tasks:
  a: {run: x, nodes: 1-8, time: {flops: 1e19, serial: 0.1}, resources: {anyOf: [{accelerators: T4}, {accelerators: A100}]}}
  b: {run: x, after: [a], time: 4h, resources: {cpus: 4}}
`)})
	}
	for i, hour := range hours {
		w, err := dag.ParseWeight(hour)
		if err != nil {
			t.Fatal(err)
		}
		got := plans[i]
		if got.Status != "optimal" || math.Abs(got.Objective-got.USD-w*got.Hours) > 1e-6*got.Objective {
			t.Errorf("%s: %s %v of %v USD and %v h", hour, got.Status, got.Objective, got.USD, got.Hours)
		}
		for _, other := range plans {
			if other.USD+w*other.Hours < got.Objective*(1-1e-6) {
				t.Errorf("%s: %v, but another plan has %v", hour, got.Objective, other.USD+w*other.Hours)
			}
		}
		if i > 0 && (got.Hours > plans[i-1].Hours+1e-9 || got.USD < plans[i-1].USD-1e-9) {
			t.Errorf("%s: %v USD, %v h after %v USD, %v h", hour, got.USD, got.Hours, plans[i-1].USD, plans[i-1].Hours)
		}
	}
	if plans[0].Hours < 2*plans[len(plans)-1].Hours {
		t.Errorf("from %v to %v hours", plans[0].Hours, plans[len(plans)-1].Hours)
	}
}

func TestPlanNamesAlternativesThatNoCloudSells(t *testing.T) {
	p, _ := newPlanner(t)
	got := plan(t, p, planinput.Input{Spec: readJob(t, `
tasks:
  a: {run: x, resources: {anyOf: [{accelerators: RTX3090:1}, {accelerators: T4:1}]}}
  b: {run: x, resources: {ordered: [{accelerators: RTX3090:1}, {accelerators: T4:1}, {cpus: 2}]}}
  c: {run: x, resources: {anyOf: [{region: moon-1, cpus: 2}, {instanceType: m5.huge}, {zone: moon-1a}, {cloud: kubernetes}, {cpus: 2}]}}
`)})
	want := []string{
		"a: the alternative RTX3090 is left out: no cloud in the catalogue sells it",
		"b: the alternative RTX3090 is left out: no cloud in the catalogue sells it",
		"c: the alternative region moon-1 is left out: no cloud in the catalogue has it",
		"c: the alternative machine type m5.huge is left out: no cloud in the catalogue has it",
		"c: the alternative zone moon-1a is left out: no cloud in the catalogue has it",
		"c: the alternative kubernetes is left out: the plan has no offers of this cloud",
	}
	if !slices.Equal(got.Notes, want) {
		t.Errorf("%q", got.Notes)
	}
}

func TestInfeasiblePlanNamesField(t *testing.T) {
	p, _ := newPlanner(t)
	half := 0.5
	cents := 0.01
	for name, c := range map[string]struct {
		in   planinput.Input
		want string
	}{
		"no such offer":  {planinput.Input{Spec: readJob(t, with(", cloud: lambda, region: nowhere"))}, "tasks.train"},
		"no such device": {planinput.Input{Spec: readJob(t, strings.Replace(with(""), "T4", "FOOBARQ", 1))}, "foobarq"},
		"deadline":       {planinput.Input{Spec: readJob(t, with("")), DeadlineHours: &half}, "(guaranteed times: "},
		"budget":         {planinput.Input{Spec: readJob(t, with("")), BudgetUSD: &cents}, "budget"},
	} {
		if got := plan(t, p, c.in); got.Status != record.PlanInfeasible || !strings.Contains(strings.ToLower(got.Message), c.want) {
			t.Errorf("%s: %s %q", name, got.Status, got.Message)
		}
	}
}

func TestLateJobGetsFastestPlan(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, with(""))
	first := plan(t, p, planinput.Input{Spec: spec})
	soon := 0.5
	got := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &soon, Previous: first})
	if !got.Late || got.Status == record.PlanInfeasible || got.Of(0).Offer.Spot {
		t.Errorf("%+v", got)
	}
}

func TestPlanUsesLearnedPricesAndInterruptions(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, with(""))
	first := plan(t, p, planinput.Input{Spec: spec}).Of(0)
	id := strings.TrimSuffix(first.ID, "/spot")
	for name, m := range map[string]record.MarketRecord{
		"expensive":  {Offer: id, USD: 50},
		"unreliable": {Offer: id, Hours: 1000, Preemptions: 9000},
	} {
		got := plan(t, p, planinput.Input{Spec: spec, Markets: map[string]record.MarketRecord{id: m}})
		if got.Of(0).ID == first.ID {
			t.Errorf("%s: still %s", name, first.ID)
		}
	}
}

func TestPlannerIsDeterministic(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, pair)
	if a, b := plan(t, p, planinput.Input{Spec: spec}), plan(t, p, planinput.Input{Spec: spec}); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func BenchmarkPlanOfAHundredTasks(b *testing.B) {
	p, _ := newPlanner(b)
	spec := &dag.Job{Name: "wide", Objective: dag.MinimizeCost}
	for range 100 {
		spec.Tasks = append(spec.Tasks, dag.Task{
			Name: "t" + string(rune('a'+len(spec.Tasks)%26)) + string(rune('a'+len(spec.Tasks)/26)), Nodes: 1, Run: "x",
			Time: dag.TimeEstimate{Default: time.Hour}, Resources: []dag.Resources{{CPUs: dag.Range{Min: 4}}},
		})
	}
	for b.Loop() {
		if _, err := p.Plan(b.Context(), planinput.Input{Spec: spec}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlanOfLargeArray(b *testing.B) {
	p, _ := newPlanner(b)
	spec := readJob(b, "tasks:\n  a: {run: x, time: 30s, array: 100000}\n").WithWorkers()
	for b.Loop() {
		if _, err := p.Plan(b.Context(), planinput.Input{Spec: spec}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPlanOfArrayCountsOnlyMembersThatMayRunTogether(t *testing.T) {
	p, _ := newPlanner(t)
	hours := func(text string) float64 {
		return plan(t, p, planinput.Input{Spec: readJob(t, "tasks: {a: {array: 6, run: x, time: 1h"+text+"}}\n")}).Hours
	}
	all, two := hours(""), hours(", maxParallel: 2")
	if math.Abs(two-3*all) > 0.01 {
		t.Errorf("six members take %.2f hours, and two at a time %.2f, not three times as long", all, two)
	}
}

func TestPlanKeepsPreviousAmongEquals(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, "tasks:\n  a: {run: x, time: 1h, resources: {instanceType: m5.xlarge, market: on-demand}}\n")
	first := plan(t, p, planinput.Input{Spec: spec})
	twin := ""
	for _, r := range first.Runners[0] {
		if r.Adds == 0 {
			twin = r.ID
		}
	}
	if twin == "" {
		t.Fatal("there are no two offers at the least price to choose from")
	}
	in := *first
	in.Offers = append([]record.Planned(nil), first.Offers...)
	in.Offers[0].ID = twin
	if got := plan(t, p, planinput.Input{Spec: spec, Previous: &in}); got.Of(0).ID != twin {
		t.Errorf("moved from %s to %s, which is no cheaper", twin, got.Of(0).ID)
	}
}

// TestOnDemandCostIsNotBelowOnDemandPlan: a job moves much data. Both the cost of the plan and the on-demand cost
// must include moving it.
func TestOnDemandCostIsNotBelowOnDemandPlan(t *testing.T) {
	p, _ := newPlanner(t)
	const apart = `
tasks:
  a: {run: x, time: 1h, resources: {cpus: 4+, cloud: aws}, outputs: [{name: data, size: 500GiB}]}
  b: {run: x, time: 1h, resources: {accelerators: T4:1, cloud: gcp}, after: [a]}
`
	for name, text := range map[string]string{
		"apart": apart, "together": pair, "in time": "deadline: 30h\n" + apart,
		"spot alone": strings.ReplaceAll(with(", market: spot"), "15m", "5m"),
	} {
		spec := readJob(t, text)
		in := planinput.Input{Spec: spec}
		if spec.Deadline > 0 {
			hours := spec.Deadline.Hours()
			in.DeadlineHours = &hours
		}
		got := plan(t, p, in)
		if got.Status != "optimal" || got.USD <= 0 || got.OnDemandUSD < got.USD {
			t.Errorf("%s: %s, %.4f USD, on demand %.4f", name, got.Status, got.USD, got.OnDemandUSD)
		}
	}
}

// TestPriceIncludesDiskAndAddress: the price of a machine includes its disk of the requested size and its address, on
// demand and on spot. On spot they are a surcharge.
func TestPriceIncludesDiskAndAddress(t *testing.T) {
	p, c := newPlanner(t)
	for _, market := range []catalog.Market{catalog.OnDemand, catalog.Spot} {
		var plans [2]*record.Plan
		for i, disk := range []string{"", ", disk: 100"} {
			more := ", cloud: aws, region: us-east-1, instanceType: g4dn.xlarge, market: " + market.String() + disk
			plans[i] = plan(t, p, planinput.Input{Spec: readJob(t, with(more))})
		}
		plain, large := plans[0].Of(0), plans[1].Of(0)
		list := 0.0
		q := catalog.Query{InstanceType: "g4dn.xlarge", Regions: []string{"aws:us-east-1"}, Accelerator: catalog.AnyAccelerator, Market: market}
		if err := c.Visit(q, func(m *catalog.Match) bool { list = m.USDPerHour; return m.ID() != large.ID }); err != nil {
			t.Fatal(err)
		}
		beside := 100*0.08/730 + 0.005
		if got := large.Offer.USDPerHour - list; math.Abs(got-beside) > 1e-8 {
			t.Errorf("%s: %.9f USD/h in addition to the machine, want %.9f", market, got, beside)
		}
		if got := large.Offer.USDPerHour - plain.Offer.USDPerHour; math.Abs(got-70*0.08/730) > 1e-8 {
			t.Errorf("%s: 70 GiB more cost %.9f USD/h", market, got)
		}
		if spot := market == catalog.Spot; spot != (math.Abs(large.SurchargeUSD-beside) < 1e-8) || !spot && large.SurchargeUSD != 0 {
			t.Errorf("%s: a surcharge of %.9f", market, large.SurchargeUSD)
		}
		if hour := plans[1].TaskUSD[0] / plans[1].TaskHours[0]; math.Abs(hour-large.Offer.USDPerHour) > 1e-2*hour {
			t.Errorf("%s: the task costs %v USD an hour", market, hour)
		}
	}
}
