package planner_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// inZones returns the number of spot machines of a plan in each zone, their sum and their maximum.
func inZones(got *record.Plan) (zones map[string]int, all, most int) {
	zones = map[string]int{}
	for _, f := range got.Fleets {
		o := &got.Offers[f.Offer].Offer
		if !o.Spot {
			continue
		}
		zone := o.Cloud + ":" + o.Region + "/" + o.Zone
		zones[zone] += f.Machines
		all, most = all+f.Machines, max(most, zones[zone])
	}
	return zones, all, most
}

func TestManySpotMachinesAreInSeveralZones(t *testing.T) {
	p, _ := newPlanner(t)
	spec := array(3000, 10*time.Minute).WithWorkers()
	got := plan(t, p, planinput.Input{Spec: spec})
	checkFleets(t, spec, got)
	zones, all, most := inZones(got)
	if all < 6 || most > (all+1)/2 {
		t.Errorf("%d of %d machines are in one zone: %v", most, all, zones)
	}
}

func TestMachinesThatExchangeDataStayInOneRegion(t *testing.T) {
	p, _ := newPlanner(t)
	spec := array(2000, 10*time.Minute)
	for i := range 1000 {
		spec.Edges = append(spec.Edges, dag.Edge{From: i, To: 1000 + i, Data: 0.1})
	}
	spec = spec.WithWorkers()
	deadline := 1.5
	got := plan(t, p, planinput.Input{Spec: spec, DeadlineHours: &deadline})
	regions := map[string]bool{}
	for _, f := range got.Fleets {
		o := &got.Offers[f.Offer].Offer
		regions[o.Cloud+":"+o.Region] = true
	}
	zones, all, most := inZones(got)
	if len(regions) != 1 || all < 4 || most == all {
		t.Errorf("%d regions, %d of %d spot machines in one zone: %v", len(regions), most, all, zones)
	}
}

// A plan with spread machines must keep every limit, cost and take at most a little more than one without, and have
// no zone with more machines.
func TestSpreadingCostsLittle(t *testing.T) {
	p := smallPlanner(t)
	crowded := smallPlanner(t)
	planner.SetCrowd(crowded, true)
	fewerChecks(t, "25")
	spread := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := array(rapid.IntRange(20, 120).Draw(t, "tasks"), time.Duration(rapid.IntRange(60, 3600).Draw(t, "seconds"))*time.Second)
		for i := range spec.Tasks {
			spec.Tasks[i].Resources[0].CPUs.Min = float64(rapid.IntRange(1, 4).Draw(t, "cpus"))
		}
		if rapid.Bool().Draw(t, "data") {
			for i := range len(spec.Tasks) / 2 {
				spec.Edges = append(spec.Edges, dag.Edge{From: i, To: len(spec.Tasks) - 1 - i,
					Data: dag.GiB(rapid.IntRange(0, 2).Draw(t, "GiB"))})
			}
		}
		spec = spec.WithWorkers()
		if rapid.Bool().Draw(t, "fast") {
			spec.Objective = dag.MinimizeMakespan
		}
		in := planinput.Input{Spec: spec, Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
		if rapid.Bool().Draw(t, "limited") {
			deadline := rapid.Float64Range(0.5, 5).Draw(t, "deadline")
			in.DeadlineHours = &deadline
		}
		if spec.Objective == dag.MinimizeMakespan || rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
			budget := rapid.Float64Range(0.1, 5).Draw(t, "budget")
			in.BudgetUSD = &budget
		}
		before, err := planner.Fleets(context.Background(), crowded, in)
		if err != nil {
			return // no fleet keeps the limits
		}
		after, err := planner.Fleets(context.Background(), p, in)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for i := range after {
			usd, hours, err := judge.Check(after[i].Model, after[i].Plan, 1e-9)
			if err != nil || !near(usd, after[i].Plan.USD) || !near(hours, after[i].Plan.Hours) {
				t.Fatalf("%v: %v USD and %v h, not %v and %v", err, usd, hours, after[i].Plan.USD, after[i].Plan.Hours)
			}
			if b := before[i].Plan; usd > b.USD*1.02+1e-9 || hours > b.Hours*1.02+1e-9 {
				t.Fatalf("%v USD and %v h instead of %v and %v", usd, hours, b.USD, b.Hours)
			}
		}
		got, err := p.Plan(context.Background(), in)
		if err != nil || got.Status == record.PlanInfeasible || len(got.Fleets) == 0 {
			return
		}
		limit := math.Inf(1)
		if in.DeadlineHours != nil {
			limit = *in.DeadlineHours
		}
		if got.Hours > limit || in.BudgetUSD != nil && got.USD > *in.BudgetUSD {
			t.Fatalf("%v h and %v USD", got.Hours, got.USD)
		}
		if was, err := crowded.Plan(context.Background(), in); err == nil {
			_, all, most := inZones(got)
			_, allBefore, mostBefore := inZones(was)
			if all == allBefore && most > mostBefore {
				t.Fatalf("%d machines in one zone instead of %d", most, mostBefore)
			}
			if most < mostBefore {
				spread++
			}
		}
	})
	if spread == 0 && !testing.Short() { // short test runs check only five models
		t.Error("no plan was spread")
	}
}
