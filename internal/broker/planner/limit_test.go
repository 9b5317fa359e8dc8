package planner_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// planWithin plans a job for a broker that has a limit.
func planWithin(t *testing.T, limit config.Limit, spec *dag.Job, deadline *float64) *record.Plan {
	t.Helper()
	p, _ := plannerWith(t, func(opt *planner.Options) { opt.Limit = limit })
	return plan(t, p, planinput.Input{Spec: spec, DeadlineHours: deadline})
}

// noteOf returns the plan's note about the limit.
func noteOf(p *record.Plan) string {
	for _, n := range p.Notes {
		if strings.Contains(n, "the broker may only have") {
			return n
		}
	}
	return ""
}

func TestPlanWaitsForLimitOfBroker(t *testing.T) {
	const wide = "tasks:\n" +
		"  first: {run: x, time: 1h, resources: {cpus: 2}}\n" +
		"  a: {array: 6, after: [first], run: x, time: 1h, resources: {cpus: 2}, share: false}\n" +
		"  gang: {after: [first], nodes: 2, run: x, time: 1h, resources: {cpus: 2}}\n"
	free := planWithin(t, config.Limit{}, readJob(t, wide), nil)
	if n := noteOf(free); n != "" {
		t.Errorf("without a limit: %s", n)
	}
	for _, c := range []struct {
		limit config.Limit
		times float64 // factor of a task's time, including the boot
	}{
		{config.Limit{Machines: 8}, 2},
		{config.Limit{Machines: 4}, 3},
		{config.Limit{Machines: 2}, 5},
		{config.Limit{USDPerHour: 4.5 * free.Of(0).Offer.USDPerHour}, 3},
		{config.Limit{Machines: 8, USDPerHour: 2.5 * free.Of(0).Offer.USDPerHour}, 5},
	} {
		got := planWithin(t, c.limit, readJob(t, wide), nil)
		if !slices.Equal(got.Choice, free.Choice) || math.Abs(got.USD-free.USD) > 1e-9 {
			t.Errorf("%v: other choices, for %v USD instead of %v", c.limit, got.USD, free.USD)
		}
		if want := c.times / 2 * free.Hours; math.Abs(got.Hours-want) > 0.02*want {
			t.Errorf("%v: %.2f hours, not %.2f", c.limit, got.Hours, want)
		}
		if (noteOf(got) != "") != (c.times > 2) {
			t.Errorf("%v: the note is %q", c.limit, noteOf(got))
		}
	}
}

func TestPlanSaysThatLimitMissesDeadline(t *testing.T) {
	const wide = "tasks: {a: {array: 6, run: x, time: 1h, resources: {cpus: 2, market: on-demand}, share: false}}\n"
	day, short := 24.0, 1.2
	for deadline, misses := range map[*float64]bool{nil: false, &day: false, &short: true} {
		got := planWithin(t, config.Limit{Machines: 2}, readJob(t, wide), deadline)
		if note := noteOf(got); !strings.Contains(note, "2 machines at the same time") ||
			strings.Contains(note, "misses its deadline") != misses {
			t.Errorf("misses %v: the note is %q", misses, note)
		}
	}
}

// Tasks that share machines are delayed when their machines are. Here, each machine also waits for the other one.
func TestPlanOfSharedMachinesWaitsForLimit(t *testing.T) {
	const shared = "objective: makespan\ntasks:\n" +
		"  a: {array: 40, run: x, time: 10m, resources: {cpus: 2, instanceType: c7a.xlarge}, share: true}\n" +
		"  b: {array: 40, run: x, time: 10m, resources: {cpus: 2, instanceType: c7a.xlarge}, after: [{task: a, each: true}], share: true}\n"
	spec := readJob(t, shared).WithWorkers()
	free := planWithin(t, config.Limit{}, spec, nil)
	machines := map[int32]bool{}
	for i := range free.Choice {
		if free.IsShared(i) {
			machines[free.On[i]] = true
		}
	}
	got := planWithin(t, config.Limit{Machines: 1}, spec, nil)
	if len(machines) < 4 || got.Hours < 2*free.Hours || noteOf(got) == "" || got.Status == "optimal" {
		t.Errorf("%d machines: %.2f hours, %.2f without the limit; %s, %q", len(machines), got.Hours, free.Hours, got.Status,
			noteOf(got))
	}
}
