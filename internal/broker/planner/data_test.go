package planner_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

const chain = `tasks:
  first: {run: x, time: 1h, outputs: [{name: o, size: 100GiB}], resources: {cpus: 4, cloud: aws, region: %FIRST%, market: on-demand}}
  then: {run: x, time: 1h, after: [first], resources: {cpus: 4, cloud: aws, region: %THEN%, market: on-demand}}
`

// stores are stores in some regions of AWS.
func stores(t *testing.T, regions ...string) record.Stores {
	t.Helper()
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	s := record.Stores{URLs: map[string]string{}, Moves: moves}
	for _, r := range regions {
		s.URLs["aws:"+r] = "s3://work-" + r
	}
	return s
}

// A task's outputs move to its store, and from there to its followers.
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
			got := plan(t, planner.New(c, moves, opt), record.PlanInput{Spec: spec})
			moved := got.USD - got.TaskUSD[0] - got.TaskUSD[1]
			want := 100 * (price(runs[0], store) + price(store, runs[1]))
			if math.Abs(moved-want) > 1e-6 {
				t.Errorf("stores in %v, tasks in %v: moving costs %v, want %v", at, runs, moved, want)
			}
		}
	}
}

// A job that is limited to some regions keeps its data there, and is infeasible if no store is there.
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
	if got := plan(t, planner.New(c, moves, opt), record.PlanInput{Spec: spec}); got.Status == record.PlanInfeasible {
		t.Error(got.Message)
	}
	opt.Stores = stores(t, "us-east-1")
	got, err := planner.New(c, moves, opt).Plan(t.Context(), record.PlanInput{Spec: spec})
	if err != nil || got.Status != record.PlanInfeasible || got.Message != "no store of this deployment is in a region that the job allows for its data (regions)" {
		t.Errorf("%+v %v", got, err)
	}
}
