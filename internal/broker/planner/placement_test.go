package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const copies = `
%s
tasks:
  a: {run: x, resources: {cpus: 4, cloud: aws}, time: 2h}
  b: {run: x, resources: {cpus: 4, cloud: aws}, time: 2h}
  c: {run: x, resources: {cpus: 4, cloud: aws}, time: 2h}
`

func ruled(t *testing.T, rule string) *dag.Job {
	t.Helper()
	return readJob(t, strings.Replace(copies, "%s", rule, 1))
}

// TestPlanFollowsPlacementRules: three identical tasks are planned in the cheapest zone, unless a rule spreads them.
// A plan with such a rule must also be proven optimal, and costs at least as much.
func TestPlanFollowsPlacementRules(t *testing.T) {
	p, _ := newPlanner(t)
	usd := map[string]float64{}
	for rule, want := range map[string][2]int{
		"":                                  {1, 1},
		"placement: {spread: zone}":         {0, 3},
		"placement: {spread: zone, max: 2}": {0, 2},
		"placement: {spread: region}":       {3, 3},
		"placement: {pack: rack}":           {1, 1},
	} {
		spec := ruled(t, rule)
		got := plan(t, p, planinput.Input{Spec: spec})
		if got.Status != "optimal" {
			t.Fatalf("%q: %s %s", rule, got.Status, got.Message)
		}
		usd[rule] = got.USD
		regions, zones := places(got, spec)
		if want[0] > 0 && len(regions) != want[0] || len(zones) != want[1] {
			t.Errorf("%q is in %v", rule, zones)
		}
		if said := strings.Contains(strings.Join(got.Notes, "\n"),
			"aws does not say which racks its machines are in; all are in one zone"); said != strings.Contains(rule,
			"rack") {
			t.Errorf("%q has the notes %q", rule, got.Notes)
		}
	}
	if !(usd["placement: {spread: region}"] >= usd["placement: {spread: zone}"] &&
		usd["placement: {spread: zone}"] >= usd["placement: {spread: zone, max: 2}"] &&
		usd["placement: {spread: zone, max: 2}"] >= usd[""]) {
		t.Errorf("a plan with fewer rules costs more: %v", usd)
	}
}

// TestPlanNotesUnknownRacks: a plan notes that racks are unknown, except if machines may report their racks.
func TestPlanNotesUnknownRacks(t *testing.T) {
	p, c := newPlanner(t)
	var offer catalog.Offer
	for o := range c.All() {
		if o.Cloud == "aws" && o.VCPU == 4 && o.Accelerator == "" {
			offer = o
		}
	}
	offer.Cloud, offer.Region, offer.Zone = "kubernetes", "lab", "rack-row"
	c, err := c.Replace(func(*catalog.Offer) bool { return false }, []catalog.Offer{offer})
	if err != nil {
		t.Fatal(err)
	}
	p.SetCatalog(c)
	spec := readJob(t, "placement: {pack: rack}\ntasks:\n"+
		"  a: {run: x, resources: {cpus: 4, cloud: kubernetes}, time: 2h}\n"+
		"  b: {run: x, resources: {cpus: 4, cloud: kubernetes}, time: 2h}\n")
	if got := plan(t, p, planinput.Input{Spec: spec}); got.Status != "optimal" || len(got.Notes) > 0 {
		t.Errorf("%s %s, with the notes %q", got.Status, got.Message, got.Notes)
	}
}

// TestPlanKeepsRunningTasksInPlace: a placement rule also counts tasks that already have machines.
func TestPlanKeepsRunningTasksInPlace(t *testing.T) {
	p, _ := newPlanner(t)
	spec := ruled(t, "placement: {spread: zone}")
	first := plan(t, p, planinput.Input{Spec: spec})
	at := first.Of(1).Offer
	// c runs in the place where b was planned
	facts := []*planinput.Facts{{}, {}, {Fixed: true, Place: record.Place(at), Hours: 1}}
	stood := []record.Placed{{Job: "j", Task: 2, Location: record.Location{Spots: []record.Spot{record.SpotOf(at, 1)}}}}
	second := plan(t, p, planinput.Input{Job: "j", Spec: spec, Tasks: facts, Previous: first, Stood: stood})
	if second.Status != "optimal" {
		t.Fatal(second.Status, second.Message)
	}
	zones := map[string]bool{record.Place(at) + "/" + at.Zone: true}
	for i := range 2 {
		o := second.Of(i).Offer
		zones[record.Place(o)+"/"+o.Zone] = true
	}
	if len(zones) != 3 {
		t.Errorf("with a running task they are in %v", zones)
	}
}

// TestPlanKeepsApartFromRunningTasks: a plan keeps tasks apart from running tasks of another job, even if only the
// other job has the rule. If no other place exists, the plan must not fail.
func TestPlanKeepsApartFromRunningTasks(t *testing.T) {
	p, _ := newPlanner(t)
	free := ruled(t, "labels: {app: web}")
	at := plan(t, p, planinput.Input{Spec: free}).Of(0).Offer
	there := func(labels map[string]string, apart ...dag.Placement) []record.Placed {
		return []record.Placed{{Job: "other", Location: record.Location{
			Since: time.Now(), Spots: []record.Spot{record.SpotOf(at, 1)}, Labels: labels, Apart: apart}}}
	}
	for name, in := range map[string]planinput.Input{
		"own rule": {Spec: ruled(t, "placement: {apart: {app: db}, by: zone}"),
			Stood: there(map[string]string{"app": "db"})},
		"rule of the other job": {Spec: free, Stood: there(nil, dag.Placement{Apart: map[string]string{"app": "web"},
			By: dag.LevelZone})},
	} {
		got := plan(t, p, in)
		for i := range in.Spec.Tasks {
			if o := got.Of(i).Offer; record.Place(o) == record.Place(at) && o.Zone == at.Zone {
				t.Errorf("%s: %s is planned at %s/%s", name, in.Spec.Tasks[i].Name, record.Place(o), o.Zone)
			}
		}
	}
	only := readJob(t, "tasks: {a: {run: x, resources: {cpus: 4, cloud: aws, region: "+at.Region+"}, time: 2h, "+
		"placement: {apart: {app: db}, by: region}}}")
	if got := plan(t, p, planinput.Input{Spec: only, Stood: there(map[string]string{"app": "db"})}); got.Of(0) == nil {
		t.Errorf("without another place there is no plan: %s", got.Message)
	}
}

// TestPlanReportsTooFewZones: a rule needs more zones than exist. The error must name the rule.
func TestPlanReportsTooFewZones(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, `
placement: {spread: region}
defaults: {resources: {cpus: 4, cloud: aws, region: us-east-1}, time: 1h}
tasks: {a: {run: x}, b: {run: x}}
`)
	got := plan(t, p, planinput.Input{Spec: spec})
	if got.Status != record.PlanInfeasible || !strings.Contains(got.Message,
		"not enough places with a candidate for each of a, b") {
		t.Errorf("%s: %s", got.Status, got.Message)
	}
}
