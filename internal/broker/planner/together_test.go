package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// gang is a launcher and a worker with different cheapest places, and a task that may join them.
const gang = `
tasks:
  train:
    time: 2h
    framework: pytorch
    gang:
      %s
      roles:
        launcher: {run: x, resources: {cpus: 2, market: on-demand}}
        worker: {run: x, min: 1, max: 2, resources: {accelerators: T4:1, market: on-demand}}
`

func gangOf(within string) string {
	if within != "" {
		within = "within: " + within
	}
	return strings.Replace(gang, "%s", within, 1)
}

// places returns the regions (with clouds) and the zones of a plan's tasks.
func places(p *record.Plan, spec *dag.Job) (regions, zones map[string]bool) {
	regions, zones = map[string]bool{}, map[string]bool{}
	for i := range spec.Tasks {
		o := p.Of(i).Offer
		regions[o.Cloud+":"+o.Region] = true
		zones[o.Cloud+":"+o.Region+"/"+o.Zone] = true
	}
	return regions, zones
}

func TestGangIsPlannedTogether(t *testing.T) {
	p, _ := newPlanner(t)
	usd := map[string]float64{}
	for _, within := range []string{"anywhere", "", "region", "zone"} {
		spec := readJob(t, gangOf(within))
		got := plan(t, p, planinput.Input{Spec: spec})
		if got.Status != "optimal" {
			t.Fatalf("within %q: %s %s", within, got.Status, got.Message)
		}
		usd[within] = got.USD
		regions, zones := places(got, spec)
		switch apart := len(regions) > 1; {
		case within == "anywhere" && !apart:
			t.Errorf("the roles have the same cheapest place, so the test proves nothing (%v)", regions)
		case within != "anywhere" && apart:
			t.Errorf("within %q it is in %v", within, regions)
		}
		if within == "zone" && len(zones) > 1 {
			t.Errorf("within a zone it is in %v", zones)
		}
		for task, runners := range got.Runners {
			for _, r := range runners {
				if o := got.Of(task).Offer; within == "" && !strings.HasPrefix(r.ID, o.Cloud+"/"+o.Region+"/") {
					t.Errorf("a runner-up of %s is %s, which the others do not reach", spec.Tasks[task].Name, r.ID)
				}
			}
		}
	}
	if !(usd["anywhere"] <= usd[""] && usd[""] == usd["region"] && usd["region"] <= usd["zone"]) {
		t.Errorf("what it costs: %v", usd)
	}
}

// Tasks of a gang that run determine the place of its other tasks. If that place has no room, the others go
// elsewhere.
func TestTaskJoinsRunningGangAtItsPlace(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, gangOf(""))
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	first := plan(t, p, planinput.Input{Spec: spec})
	facts := make([]*planinput.Facts, len(spec.Tasks))
	for i := range spec.Tasks {
		if spec.Tasks[i].Joins == "" {
			facts[i] = &planinput.Facts{Fixed: true, Place: "aws:eu-central-1", Hours: 1}
		}
	}
	in := planinput.Input{Spec: spec, Previous: first, Tasks: facts, Now: now}
	joins := len(spec.Tasks) - 1
	if spec.Tasks[joins].Joins == "" {
		t.Fatalf("tasks %+v", spec.Tasks)
	}
	if o := plan(t, p, in).Of(joins).Offer; o.Cloud != "aws" || o.Region != "eu-central-1" {
		t.Errorf("it joins in %s:%s", o.Cloud, o.Region)
	}
	in.Blocks = []apitypes.Block{{Cloud: "aws", Region: "eu-central-1", Until: now.Add(time.Hour), Kind: string(cloud.Capacity)}}
	if got := plan(t, p, in); got.Status != "optimal" || got.Of(joins).Offer.Region == "eu-central-1" {
		t.Errorf("with no room there: %s %+v", got.Status, got.Of(joins))
	}
}

func TestPlanReportsGangWithoutPlace(t *testing.T) {
	p, _ := newPlanner(t)
	spec := readJob(t, `
tasks:
  a: {run: x, time: 1h, gang: g, resources: {cpus: 2, cloud: aws}}
  b: {run: x, time: 1h, gang: g, resources: {cpus: 2, cloud: gcp}}
`)
	if got := plan(t, p, planinput.Input{Spec: spec}); got.Status != record.PlanInfeasible || !strings.Contains(got.Message, "no one place has a candidate for each of a, b (the machines of a gang are in one region") {
		t.Errorf("%s %q", got.Status, got.Message)
	}
}
