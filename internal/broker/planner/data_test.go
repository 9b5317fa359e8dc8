package planner_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

const chain = `tasks:
  first: {run: x, time: 1h, outputs: [{name: o, size: 100GiB}], resources: {cpus: 4, cloud: aws, region: %FIRST%, market: on-demand}}
  then: {run: x, time: 1h, after: [first], resources: {cpus: 4, cloud: aws, region: %THEN%, market: on-demand}}
`

// stores returns stores in the given regions of AWS.
func stores(t *testing.T, regions ...string) config.Stores {
	t.Helper()
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	s := config.Stores{URLs: map[string]string{}, Moves: moves}
	for _, r := range regions {
		s.URLs["aws:"+r] = "s3://work-" + r
	}
	return s
}

// The outputs of a task move to the store of its region, and from there to the tasks that read them.
func TestDataMovesThroughStores(t *testing.T) {
	_, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	price := func(from, to string) float64 {
		usd, _, _ := moves.Move("aws:"+from, "aws:"+to)
		return usd
	}
	for _, at := range [][]string{nil, {"us-east-1"}, {"eu-west-1"}, {"us-east-1", "eu-west-1"}, {"us-east-1", "eu-west-1", "ap-south-1"}} {
		for _, runs := range [][2]string{{"us-east-1", "us-east-1"}, {"us-east-1", "eu-west-1"}, {"ap-south-1", "us-east-1"}, {"ap-south-1", "ap-south-1"}} {
			opt := planner.DefaultOptions()
			store := runs[0]
			if at != nil {
				opt.Stores = stores(t, at...)
				_, place, ok := opt.Stores.For("aws:"+runs[0], nil)
				if !ok {
					t.Fatal("no store")
				}
				store = place[len("aws:"):]
			}
			spec := readJob(t, strings.NewReplacer("%FIRST%", runs[0], "%THEN%", runs[1]).Replace(chain))
			got := plan(t, planner.New(c, moves, opt), planinput.Input{Spec: spec})
			moved := got.USD - got.TaskUSD[0] - got.TaskUSD[1]
			want := 100 * (price(runs[0], store) + price(store, runs[1]))
			if math.Abs(moved-want) > 1e-6 {
				t.Errorf("stores in %v, tasks in %v: moving costs %v, want %v", at, runs, moved, want)
			}
		}
	}
}

// A job that is limited to some regions must keep its data there. If none of these regions has a store, the job is
// infeasible.
func TestRegionsAlsoLimitData(t *testing.T) {
	_, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := planner.DefaultOptions()
	opt.Stores = stores(t, "us-east-1", "eu-west-3")
	if url, _, ok := opt.Stores.For("aws:eu-west-1", []string{"eu"}); !ok || url != "s3://work-eu-west-3" {
		t.Errorf("%q, %v", url, ok)
	}
	spec := readJob(t, "regions: [eu]\n"+with(""))
	if got := plan(t, planner.New(c, moves, opt), planinput.Input{Spec: spec}); got.Status == record.PlanInfeasible {
		t.Error(got.Message)
	}
	opt.Stores = stores(t, "us-east-1")
	got, err := planner.New(c, moves, opt).Plan(t.Context(), planinput.Input{Spec: spec})
	if err != nil || got.Status != record.PlanInfeasible || got.Message != "no store of this deployment is in a region that the job allows for its data (regions)" {
		t.Errorf("%+v %v", got, err)
	}
}

// A broker that buys in one region must pay for data from and to other regions, like a plan on the whole catalogue.
// The data are inputs, outputs of tasks that ran in another region, and data in the broker's store.
func TestDataOutsideTheCatalogueCostsTheSame(t *testing.T) {
	_, c := newPlanner(t)
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := c.Replace(func(o *catalog.Offer) bool { return o.Cloud != "gcp" || o.Region != "us-central1" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	const resources = "resources: {cpus: 4, cloud: gcp, region: us-central1, market: on-demand}"
	followed := "tasks: {a: {run: x, time: 1h, outputs: [{name: o, size: 100GiB}]}, b: {run: x, time: 1h, after: [a], " + resources + "}}"
	for _, k := range []struct {
		name, job, store string
		facts            []*planinput.Facts
		least            float64 // USD
	}{
		{"input", "tasks: {a: {run: x, time: 1h, inputs: [{uri: 's3://data', size: 100GiB}], " + resources + "}}", "", nil, 8},
		{"input of a region that does not exist", "tasks: {a: {run: x, time: 1h, inputs: [{uri: 's3://data?region=x', size: 100GiB}], " + resources + "}}", "", nil, 8},
		{"input of no region", "tasks: {a: {run: x, time: 1h, inputs: [{uri: 's3://data?region=x:y', size: 100GiB}], " + resources + "}}", "", nil, 0},
		{"store", "tasks: {a: {run: x, time: 1h, outputs: [{name: o, size: 100GiB}], " + resources + "}}", "eu-west-1", nil, 8},
		{"input in a store", "tasks: {a: {run: x, time: 1h, inputs: [{uri: 's3://work-sa-east-1/x', size: 100GiB}], " + resources + "}}", "sa-east-1", nil, 15},
		{"earlier task", followed, "", []*planinput.Facts{{Done: true, Place: "aws:eu-west-1"}}, 8},
	} {
		opt := planner.DefaultOptions()
		if opt.Now = nil; k.store != "" {
			opt.Stores = stores(t, k.store)
		}
		in := planinput.Input{Spec: readJob(t, k.job), Tasks: k.facts}
		got, want := plan(t, planner.New(narrow, moves, opt), in), plan(t, planner.New(c, moves, opt), in)
		if math.Abs(got.USD-want.USD) > 1e-9 || math.Abs(got.Hours-want.Hours) > 1e-9 || got.USD < k.least {
			t.Errorf("%s: %v USD and %v h, want %v USD and %v h", k.name, got.USD, got.Hours, want.USD, want.Hours)
		}
	}
}
