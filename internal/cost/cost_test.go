package cost_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cost"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func awsPlanner(t *testing.T) broker.Planner {
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
	opt.Clouds, opt.Now = []string{"aws"}, nil
	return planner.New(c, moves, opt)
}

// layered returns a DAG of layers. Each task waits for one task of the layer before, and takes a number of minutes.
func layered(t *testing.T, n, width, minutes int, share bool) *dag.Job {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\nname: layered\ntasks:\n")
	for i := range n {
		fmt.Fprintf(&b, "  t%03d:\n    run: \"true\"\n    resources: {cpus: 2+}\n    time: %dm\n    share: %v\n", i, minutes, share)
		if i >= width {
			fmt.Fprintf(&b, "    after: [t%03d]\n", i-width)
		}
	}
	spec, err := read.Job("layered.yaml", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func bill(t *testing.T, spec *dag.Job) *cost.Bill {
	t.Helper()
	b, err := cost.BillFor(context.Background(), spec, awsPlanner(t), start)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHundredTasksStayBelowCostLimit limits the cost of the control plane for a DAG of a hundred tasks, ten in
// parallel. It covers tasks of one minute and of twelve, with a machine for each and on workers, whose calls cost
// more the longer they are up. The part for the job's own events may not exceed the cost that was reached before.
func TestHundredTasksStayBelowCostLimit(t *testing.T) {
	for _, c := range []struct {
		minutes           int
		share             bool
		usd, events       float64
		shortest, longest float64 // hours of open work
	}{
		{1, false, 0.0035, 0.00295, 0.25, 0.6},
		{12, false, 0.0035, 0.00295, 1.2, 2.8},
		{1, true, 0.0048, 0.0044, 0.2, 0.6},
		{12, true, 0.0071, 0.0050, 1, 2.8},
	} {
		b := bill(t, layered(t, 100, 10, c.minutes, c.share))
		for _, l := range b.Lines {
			t.Logf("%-22s %-34s %10.3f %10.3f %.6f", l.Service, l.Unit, l.Events, l.Open, l.USD)
		}
		t.Logf("%d minutes: %.6f, of it events %.6f, open %.6f over %.2f h, idle %+v", c.minutes, b.USD, b.EventsUSD, b.OpenUSD, b.Hours, b.Idle)
		if b.USD > c.usd || b.EventsUSD > c.events {
			t.Errorf("tasks of %d minutes cost %.6f USD, of which %.6f for events; sharing: %v", c.minutes, b.USD, b.EventsUSD, c.share)
			for _, r := range b.Records {
				t.Logf("%-22s %5d %7.0f %.6f", r.Kind, r.Writes, r.Units, r.USD)
			}
		}
		if b.Tasks != 100 || b.Hours < c.shortest || b.Hours > c.longest {
			t.Errorf("%d tasks in %.2f h", b.Tasks, b.Hours)
		}
	}
}

// TestShortMembersStayBelowCostLimit limits the cost per member of an array of short tasks on shared machines to the
// cost that was reached before.
func TestShortMembersStayBelowCostLimit(t *testing.T) {
	const members, most = 1000, 11.2e-6
	spec, err := read.Job("short.yaml", strings.NewReader(fmt.Sprintf(
		"apiVersion: tradewind/v1\nname: short\ntasks:\n  a:\n    run: \"true\"\n    array: %d\n    time: 30s\n", members)))
	if err != nil {
		t.Fatal(err)
	}
	b := bill(t, spec)
	for _, l := range b.Lines {
		t.Logf("%-22s %-34s %10.3f %10.3f %8.3f µUSD a member", l.Service, l.Unit, l.Events/members, l.Open/members,
			l.USD/members*1e6)
	}
	for _, r := range b.Records[:min(len(b.Records), 16)] {
		t.Logf("%-22s %8.3f writes, %8.3f units a member", r.Kind, float64(r.Writes)/members, r.Units/members)
	}
	for _, f := range b.Functions {
		t.Logf("%-22s %8.3f requests a member, %.1f messages each", f.Name, float64(f.Requests)/members, f.Batch)
	}
	if b.USD/members > most || b.Tasks != members {
		t.Errorf("%d members cost %.2f µUSD each, in %.2f hours", b.Tasks, b.USD/members*1e6, b.Hours)
	}
}

func TestBillIsSumOfItsLines(t *testing.T) {
	b := bill(t, layered(t, 7, 3, 30, false))
	sum, writes := 0.0, 0.0
	for _, l := range b.Lines {
		sum += (l.Events + l.Open) * l.USDPerUnit
		if l.Unit == "write request units" {
			writes = l.Events + l.Open
		}
	}
	if math.Abs(sum-b.USD) > 1e-12 || math.Abs(b.EventsUSD+b.OpenUSD-b.USD) > 1e-12 {
		t.Errorf("lines %v, total %v of %v and %v", sum, b.USD, b.EventsUSD, b.OpenUSD)
	}
	kinds := 0.0
	for _, r := range b.Records {
		kinds += r.Units
	}
	if kinds != writes {
		t.Errorf("%v units by record, %v on the bill", kinds, writes)
	}
}

func TestBillIsDeterministic(t *testing.T) {
	one, two := bill(t, layered(t, 20, 4, 5, true)), bill(t, layered(t, 20, 4, 5, true))
	if !reflect.DeepEqual(one, two) {
		t.Errorf("%+v\n%+v", one, two)
	}
}

func TestLongerTasksAddOnlyHourlyCost(t *testing.T) {
	short, long := bill(t, layered(t, 5, 5, 10, false)), bill(t, layered(t, 5, 5, 300, false))
	if math.Abs(long.EventsUSD/short.EventsUSD-1) > 0.02 {
		t.Errorf("events: %.6f for ten minutes, %.6f for five hours", short.EventsUSD, long.EventsUSD)
	}
	if long.OpenUSD < 10*short.OpenUSD {
		t.Errorf("open: %.6f for ten minutes, %.6f for five hours", short.OpenUSD, long.OpenUSD)
	}
}

func TestOfFailsWithoutPlan(t *testing.T) {
	spec := layered(t, 1, 1, 1, false)
	spec.Tasks[0].Resources = []dag.Resources{{CPUs: dag.Range{Min: 1 << 20}}}
	if _, err := cost.BillFor(context.Background(), spec, awsPlanner(t), start); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Error(err)
	}
}
