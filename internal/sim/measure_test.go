package sim

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// shortTasks is a job of many short tasks. Starting and ending a task takes a tenth of its run time.
const shortTasks = `apiVersion: tradewind/v1
name: short
tasks:
  a: {run: a, array: 300, time: 10s, resources: {cpus: 1, market: MARKET}}
  b: {run: b, array: 300, time: 10s, after: [{task: a, each: true}], resources: {cpus: 1, market: MARKET}}
`

func measured(t *testing.T, market string, o MeasureOptions) (runs []Measured) {
	t.Helper()
	var err error
	if o.Planner, err = planner.Production(); err != nil {
		t.Fatal(err)
	}
	job, err := read.Job("short.yaml", strings.NewReader(strings.ReplaceAll(shortTasks, "MARKET", market)))
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(4)
	if raceDetector || testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		m, err := Measure(seed, job, o)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, m)
	}
	return runs
}

// offPlan returns the difference between the median cost and the planned cost, as a share of the plan. Slow boots can
// cost a short job a tenth or more.
func offPlan(runs []Measured) float64 {
	var ratios []float64
	for _, m := range runs {
		ratios = append(ratios, m.USD/m.PlannedUSD)
	}
	slices.Sort(ratios)
	return math.Abs(ratios[(len(ratios)-1)/2] - 1)
}

func TestBillIsCloseToPlan(t *testing.T) {
	runs := measured(t, string(dag.MarketOnDemand), MeasureOptions{Within: 24 * time.Hour})
	if off := offPlan(runs); off > 0.05 || runs[0].Machines == 0 {
		t.Errorf("%.1f %% off: %+v", 100*off, runs)
	}
}

func TestBillOfSpotIsCloseToPlan(t *testing.T) {
	runs := measured(t, string(dag.MarketSpot), MeasureOptions{Within: 24 * time.Hour, Preempted: 20 * time.Minute})
	preempted := 0
	for _, m := range runs {
		preempted += m.Preempted
	}
	if off := offPlan(runs); preempted == 0 && len(runs) > 1 || off > 0.1 {
		t.Errorf("%d machines preempted, %.1f %% off: %+v", preempted, 100*off, runs)
	}
}

func TestMeasuredJobMustEndInTime(t *testing.T) {
	p, err := planner.Production()
	if err != nil {
		t.Fatal(err)
	}
	job, err := read.Job("short.yaml", strings.NewReader(strings.ReplaceAll(shortTasks, "MARKET", "auto")))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Measure(0, job, MeasureOptions{Planner: p, Within: time.Minute}); !errors.Is(err, errNotDone) {
		t.Errorf("%+v, %v", m, err)
	}
}
