package planner_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// having returns a planner for an account with the given reserved capacity.
func having(t testing.TB, mine ...catalog.Reserved) *planner.Planner {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	if c, err = c.WithReserved(func(*catalog.Reserved) bool { return true }, mine); err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := planner.DefaultOptions()
	opt.Now = nil
	return planner.New(c, moves, opt)
}

func reservedT4(count int) catalog.Reserved {
	return catalog.Reserved{Cloud: "aws", ID: "cr-1", Region: "us-east-1", Zone: "use1-az2", InstanceType: "g4dn.xlarge",
		Count: count}
}

// onReserved returns the tasks that a plan puts on reserved capacity.
func onReserved(p *record.Plan) (tasks []int) {
	for i := range p.Choice {
		if c := p.Of(i); c != nil && c.Offer.Reservation != "" {
			tasks = append(tasks, i)
		}
	}
	return tasks
}

func TestPlanUsesReservedCapacityFirst(t *testing.T) {
	p := having(t, reservedT4(1))
	spec := readJob(t, with(""))
	got := plan(t, p, planinput.Input{Spec: spec})
	c := got.Of(0)
	if c == nil || c.ID != "aws/us-east-1/use1-az2/g4dn.xlarge/reserved@cr-1" || c.Offer.Reserved != 1 || c.Offer.Spot {
		t.Fatalf("%+v", c)
	}
	// Reserved capacity costs only disk and address. The on-demand price is the catalogue's.
	if got.USD > 0.1 || got.OnDemandUSD < 1 || c.OnDemandUSD < 0.5 || got.Status != "optimal" {
		t.Errorf("%+v %+v", got, c)
	}
	for name, in := range map[string]planinput.Input{
		"others use it": {Held: map[string][]planinput.Holding{"aws/cr-1": {{Job: "other",
			Takes: catalog.Machines(1)}}}},
		"it has failed": {Blocks: []apitypes.Block{{Cloud: "aws", Region: "us-east-1", Zone: "use1-az2", Kind: string(cloud.Transient),
			InstanceType: "g4dn.xlarge", Reservation: "cr-1", Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		"spot is asked for": {Spec: readJob(t, with(", market: spot"))},
		"it has ended":      {Now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if in.Spec == nil {
			in.Spec = spec
		}
		mine := reservedT4(1)
		mine.Until = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		if got := plan(t, having(t, mine), in); len(onReserved(got)) > 0 {
			t.Errorf("%s: %+v", name, got.Of(0))
		}
	}
	// A zone without capacity for sale must not block the reserved capacity there.
	full := []apitypes.Block{{Cloud: "aws", Region: "us-east-1", Zone: "use1-az2", InstanceType: "g4dn.xlarge",
		Kind: string(cloud.Capacity), Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if got := plan(t, p, planinput.Input{Spec: spec, Blocks: full}); len(onReserved(got)) != 1 {
		t.Errorf("full for others: %+v", got.Of(0))
	}
}

func TestPlanStaysWithinReservation(t *testing.T) {
	side := `
tasks:
  a: {run: x, time: 2h, resources: {accelerators: T4:1}, checkpoint: {every: 15m, path: c}}
  b: {run: x, time: 9h, resources: {accelerators: T4:1}, checkpoint: {every: 15m, path: c}}
  c: {run: x, time: 3h, resources: {accelerators: T4:1}, checkpoint: {every: 15m, path: c}}
`
	got := plan(t, having(t, reservedT4(1)), planinput.Input{Spec: readJob(t, side)})
	if on := fmt.Sprint(onReserved(got)); on != "[1]" { // the task that saves the most gets it
		t.Errorf("%s are planned there", on)
	}
	if got.Status != "feasible" || !(got.Bound < got.Objective) {
		t.Errorf("%s, %v of %v: optimality was not proven", got.Status, got.Bound, got.Objective)
	}
	if on := fmt.Sprint(onReserved(plan(t, having(t, reservedT4(3)), planinput.Input{Spec: readJob(t, side)}))); on != "[0 1 2]" {
		t.Errorf("of three %s are planned there", on)
	}
	// Tasks that run one after another may all use the same reservation.
	chain := strings.Replace(strings.Replace(side, "b: {run", "b: {after: [a], run", 1), "c: {run", "c: {after: [b], run", 1)
	got = plan(t, having(t, reservedT4(1)), planinput.Input{Spec: readJob(t, chain)})
	if on := fmt.Sprint(onReserved(got)); on != "[0 1 2]" || got.Status != "optimal" {
		t.Errorf("of a chain %s, %s", on, got.Status)
	}
	// A gang that does not fit must be bought elsewhere as a whole.
	gang := "\ntasks:\n  a: {run: x, nodes: 4, time: 2h, resources: {accelerators: T4:1}}\n"
	if got := plan(t, having(t, reservedT4(3)), planinput.Input{Spec: readJob(t, gang)}); len(onReserved(got)) > 0 {
		t.Errorf("%+v", got.Of(0))
	}
	// Running tasks of the job count as users of the reservation, except for tasks that wait for them.
	held := map[string][]planinput.Holding{"aws/cr-1": {{Job: "j", Task: 0, Takes: catalog.Machines(1)}}}
	facts := []*planinput.Facts{{Fixed: true, Place: "aws:us-east-1", Hours: 1}, nil, nil}
	got = plan(t, having(t, reservedT4(1)), planinput.Input{Job: "j", Spec: readJob(t, side), Held: held, Tasks: facts})
	if len(onReserved(got)) > 0 {
		t.Errorf("with one running there: %v", onReserved(got))
	}
	got = plan(t, having(t, reservedT4(1)), planinput.Input{Job: "j", Spec: readJob(t, chain), Held: held, Tasks: facts})
	if on := fmt.Sprint(onReserved(got)); on != "[1 2]" {
		t.Errorf("after one that runs there: %s", on)
	}
}

// Random tasks and dependencies: no set of tasks that may run at the same time may exceed the reserved count.
func TestNoAntichainExceedsReservedCount(t *testing.T) {
	planners := map[int]*planner.Planner{}
	for count := 1; count <= 4; count++ {
		planners[count] = having(t, reservedT4(count))
	}
	rapid.Check(t, func(t *rapid.T) {
		n, count := rapid.IntRange(1, 7).Draw(t, "tasks"), rapid.IntRange(1, 4).Draw(t, "count")
		var b strings.Builder
		b.WriteString("tasks:\n")
		nodes := make([]int, n)
		before := make([][]bool, n)
		for i := range n {
			before[i] = make([]bool, n)
			nodes[i] = rapid.IntRange(1, 2).Draw(t, "nodes")
			var after []string
			for k := range i {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					after = append(after, fmt.Sprint("t", k))
					before[i][k] = true
					for x := range k {
						before[i][x] = before[i][x] || before[k][x]
					}
				}
			}
			fmt.Fprintf(&b, "  t%d: {after: [%s], run: x, nodes: %d, time: %dh, resources: {accelerators: T4:1}}\n", i,
				strings.Join(after, ", "), nodes[i], rapid.IntRange(1, 9).Draw(t, "hours"))
		}
		got, err := planners[count].Plan(t.Context(), planinput.Input{Spec: parse(b.String()), Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		on := onReserved(got)
		for set := range 1 << len(on) {
			sum, apart := 0, true
			for x := range on {
				if set>>x&1 == 0 {
					continue
				}
				sum += nodes[on[x]]
				for y := range x {
					apart = apart && (set>>y&1 == 0 || !before[on[x]][on[y]])
				}
			}
			if apart && sum > count {
				t.Fatalf("%d machines at once of %d: tasks %v of\n%s", sum, count, on, b.String())
			}
		}
		if !(got.Bound <= got.Objective+1e-9) || got.Status == "optimal" && math.Abs(got.Bound-got.Objective) > 1e-9 {
			t.Errorf("%s: %v, bound %v", got.Status, got.Objective, got.Bound)
		}
	})
}

func parse(text string) *dag.Job {
	j, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\n"+text))
	if err != nil {
		panic(err) // an error of the test
	}
	return j
}

// committed returns a commitment to vCPUs and memory in a region. Machines of two families share it.
func committed(vcpu, gib float64) catalog.Reserved {
	takes := map[string]apitypes.Amount{}
	for kind, size := range map[string][2]float64{"m5.large": {2, 8}, "m5.xlarge": {4, 16}, "m5.4xlarge": {16, 64},
		"r5.large": {2, 16}, "r5.xlarge": {4, 32}} {
		takes["us-east-1/"+kind] = catalog.DemandOf(size[0], size[1])
	}
	return catalog.Reserved{Cloud: "aws", ID: "plan", Region: "us-east-1", By: catalog.ByCommittedUse,
		Commitment: &catalog.Commitment{What: "m5 and r5", Has: catalog.DemandOf(vcpu, gib), Takes: takes}}
}

func TestCommitmentPrefersSmallestSufficientType(t *testing.T) {
	job := `
tasks:
  a: {run: x, time: 2h, resources: {cpus: 2+, memory: 8+, market: on-demand}}
  b: {run: x, time: 2h, resources: {cpus: 4, memory: 32+, market: on-demand}}
`
	got := plan(t, having(t, committed(6, 40)), planinput.Input{Spec: readJob(t, job)})
	for i, want := range []string{"m5.large/reserved@plan", "r5.xlarge/reserved@plan"} {
		c := got.Of(i)
		if !strings.HasSuffix(c.ID, want) || c.Offer.Has != catalog.DemandOf(6, 40) || c.Offer.Takes.IsZero() {
			t.Errorf("task %d is planned on %+v", i, c)
		}
	}
	if got.USD > 0.1 || got.Status != "optimal" {
		t.Errorf("%v USD, %s", got.USD, got.Status)
	}
	for what, c := range map[string]struct {
		has  catalog.Reserved
		held apitypes.Amount
		want string
	}{
		"too little memory for both": {committed(6, 39), apitypes.Amount{}, "[1]"}, // the task that saves more gets it
		"too few vCPUs for both":     {committed(5, 99), apitypes.Amount{}, "[1]"},
		"no memory at all":           {committed(99, 0), apitypes.Amount{}, "[]"},
		"others have most of it":     {committed(6, 40), catalog.DemandOf(4, 16), "[0]"},
	} {
		in := planinput.Input{Spec: readJob(t, job),
			Held: map[string][]planinput.Holding{"aws/plan": {{Job: "other", Takes: c.held}}}}
		if on := fmt.Sprint(onReserved(plan(t, having(t, c.has), in))); on != c.want {
			t.Errorf("%s: %s are planned there", what, on)
		}
	}
	// A commitment for all regions covers the types in its table everywhere.
	everywhere := committed(2, 8)
	everywhere.Region, everywhere.Commitment.Takes = "", map[string]apitypes.Amount{
		"eu-west-1/m5.large": catalog.DemandOf(2, 8)}
	got = plan(t, having(t, everywhere), planinput.Input{Spec: readJob(t, job)})
	if c := got.Of(0); c.Offer.Region != "eu-west-1" || c.Offer.Reservation != "plan" {
		t.Errorf("%+v", c)
	}
}

// Random tasks of types that need different amounts of several resources: no set of tasks that may run at the same
// time may need more of a resource than the commitment has. All sets are checked.
func TestNoAntichainExceedsCommitment(t *testing.T) {
	planners := map[int]*planner.Planner{}
	has := map[int]apitypes.Amount{}
	for n := range 6 {
		c := committed(float64(2+3*n), float64(40-4*n))
		planners[n], has[n] = having(t, c), c.Commitment.Has
	}
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		n, which := rapid.IntRange(1, 7).Draw(t, "tasks"), rapid.IntRange(0, 5).Draw(t, "commitment")
		var b strings.Builder
		b.WriteString("tasks:\n")
		nodes, before := make([]int, n), make([][]bool, n)
		for i := range n {
			before[i], nodes[i] = make([]bool, n), rapid.IntRange(1, 2).Draw(t, "nodes")
			var after []string
			for k := range i {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					after = append(after, fmt.Sprint("t", k))
					before[i][k] = true
					for x := range k {
						before[i][x] = before[i][x] || before[k][x]
					}
				}
			}
			size := rapid.SampledFrom([]string{"cpus: 2+, memory: 8+", "cpus: 2, memory: 16+", "cpus: 4+", "cpus: 4, memory: 32"})
			fmt.Fprintf(&b, "  t%d: {after: [%s], run: x, nodes: %d, time: %dh, resources: {%s}}\n", i,
				strings.Join(after, ", "), nodes[i], rapid.IntRange(1, 9).Draw(t, "hours"), size.Draw(t, "size"))
		}
		got, err := planners[which].Plan(t.Context(), planinput.Input{Spec: parse(b.String()), Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		on := onReserved(got)
		if len(on) > 1 {
			shared++
		}
		for set := range 1 << len(on) {
			var sum apitypes.Amount
			apart := true
			for x := range on {
				if set>>x&1 == 0 {
					continue
				}
				o := got.Of(on[x]).Offer
				_, takes := o.Room(nodes[on[x]])
				sum = sum.Plus(takes)
				for y := range x {
					apart = apart && (set>>y&1 == 0 || !before[on[x]][on[y]])
				}
			}
			if apart && !sum.Within(has[which]) {
				t.Fatalf("%s at once of %s: tasks %v of\n%s", sum, has[which], on, b.String())
			}
		}
	})
	if shared == 0 && !testing.Short() {
		t.Error("no two tasks ever shared the commitment")
	}
}
