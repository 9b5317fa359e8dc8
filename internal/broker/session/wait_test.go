package session

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	pricing "github.com/tradewind-broker/tradewind/pkg/market"
)

// dearNow is a task of one hour on a market that alternates hourly between 0.2 and 0.7 USD and is expensive now. The
// on-demand price is 0.9 USD.
func dearNow(spot bool) (in bid.Input, tasks map[int]record.Task) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	m := record.MarketRecord{Offer: "aws/r/z/m", USD: 0.7}
	for at := now.Add(-4 * 24 * time.Hour); at.Before(now); at = at.Add(2 * time.Hour) {
		m.Prices.Observe(at, 0.2)
		m.Prices.Observe(at.Add(time.Hour), 0.7)
	}
	offer := record.Planned{ID: "aws/r/z/m/on-demand", Offer: apitypes.Offer{Cloud: "aws", USDPerHour: 0.9}, OnDemandUSD: 0.9}
	if spot {
		offer = record.Planned{ID: "aws/r/z/m/spot", Offer: apitypes.Offer{Cloud: "aws", USDPerHour: 0.7, Spot: true}, OnDemandUSD: 0.9, LossesPerHour: 0.01}
	}
	task := dag.Task{Name: "a", Nodes: 1, Time: dag.TimeEstimate{Default: time.Hour}, Checkpoint: &dag.Checkpoint{Every: 10 * time.Minute}, Resources: []dag.Resources{{}}}
	return bid.Input{
		Job:  record.Job{ID: "j", Objective: dag.MinimizeCost, Deadline: now.Add(8 * time.Hour)},
		Spec: &dag.Job{Tasks: []dag.Task{task}}, Plan: &record.Plan{Version: 1, Offers: []record.Planned{offer}, Choice: []int32{0}, TaskHours: []float64{1}, TaskUSD: []float64{0.7}},
		Markets: []record.MarketRecord{m}, Restart: 10 * time.Minute, Tick: 10 * time.Minute, Now: now,
	}, map[int]record.Task{}
}

func TestTasksThatMayWaitForPrice(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bid.Input, map[int]record.Task)
		want   int
	}{
		"a market that is expensive just now": {func(*bid.Input, map[int]record.Task) {}, 1},
		"it is cheap":                         {func(in *bid.Input, _ map[int]record.Task) { in.Markets[0].USD = 0.2 }, 0},
		"it is cheap, and the task starts later": {func(in *bid.Input, _ map[int]record.Task) {
			in.Markets[0].USD = 0.2
			in.Spec.Tasks = append(in.Spec.Tasks, in.Spec.Tasks[0])
			in.Spec.Edges = []dag.Edge{{From: 0, To: 1}}
			in.Plan.Choice, in.Plan.TaskHours, in.Plan.TaskUSD = []int32{0, 0}, []float64{1, 1}, []float64{0.7, 0.7}
		}, 1},
		"no deadline":    {func(in *bid.Input, _ map[int]record.Task) { in.Job.Deadline = time.Time{} }, 0},
		"makespan":       {func(in *bid.Input, _ map[int]record.Task) { in.Job.Objective = dag.MinimizeMakespan }, 0},
		"a late plan":    {func(in *bid.Input, _ map[int]record.Task) { in.Plan.Late = true }, 0},
		"a gang":         {func(in *bid.Input, _ map[int]record.Task) { in.Spec.Tasks[0].Gang = "g" }, 0},
		"spot only":      {func(in *bid.Input, _ map[int]record.Task) { in.Spec.Tasks[0].Resources[0].Market = dag.MarketSpot }, 0},
		"on demand only": {func(in *bid.Input, _ map[int]record.Task) { in.Spec.Tasks[0].Resources[0].Market = dag.MarketOnDemand }, 0},
		"no checkpoints": {func(in *bid.Input, _ map[int]record.Task) { in.Spec.Tasks[0].Checkpoint = nil }, 0},
		"little time":    {func(in *bid.Input, _ map[int]record.Task) { in.Job.Deadline = in.Now.Add(115 * time.Minute) }, 0},
		"on demand only from now on": {func(_ *bid.Input, tasks map[int]record.Task) {
			tasks[0] = record.Task{State: record.TaskQueued, OnDemand: true}
		}, 0},
		"it runs": {func(_ *bid.Input, tasks map[int]record.Task) { tasks[0] = record.Task{State: record.TaskRunning} }, 0},
		"it was stopped on spot": {func(_ *bid.Input, tasks map[int]record.Task) {
			tasks[0] = record.Task{State: record.TaskQueued, Progress: 0.4}
		}, 1},
		"a market known for too short a time": {func(in *bid.Input, _ map[int]record.Task) { in.Markets[0].Prices = young(in.Now, 30, 20*time.Minute) }, 0},
		"a market with few changes":           {func(in *bid.Input, _ map[int]record.Task) { in.Markets[0].Prices = young(in.Now, 10, 9*time.Hour) }, 0},
		"the price is unknown":                {func(in *bid.Input, _ map[int]record.Task) { in.Markets[0] = record.MarketRecord{} }, 0},
	} {
		for _, spot := range []bool{true, false} {
			in, tasks := dearNow(spot)
			c.change(&in, tasks)
			for _, task := range tasks {
				in.Tasks = append(in.Tasks, task)
			}
			begins, tables, err := in.Waits(context.Background())
			if err != nil || len(begins) != c.want || (len(tables) > 0) != (c.want > 0) {
				t.Errorf("%s, spot %v: %+v, %d tables, %v", name, spot, begins, len(tables), err)
			}
		}
	}
}

// young is a market with a number of price changes at regular intervals.
func young(now time.Time, changes int, every time.Duration) (o pricing.Online) {
	for i := range changes {
		o.Observe(now.Add(-time.Duration(changes-i)*every), 0.2+0.5*float64(i%2))
	}
	return o
}

// A task starts if the price is exactly what an hour is worth.
func TestTaskStartsAtExactlyItsWorth(t *testing.T) {
	in, _ := dearNow(true)
	begins, tables, err := in.Waits(context.Background())
	if err != nil || len(begins) != 1 {
		t.Fatal(begins, err)
	}
	a := &admission{price: &bid.Waiting{Begin: begins[0], Worth: tables[0], USD: 0.7, Work: 1, Tick: in.Tick}}
	a.price.Spot, a.task.WaitSince = true, in.Now
	s := &Session{u: recordcache.NewDraft(nil, in.Now, 0)}
	worth, _ := a.price.Wait(in.Now)
	for usd, want := range map[float64]verdict{worth: verdictAdmit, worth / 2: verdictAdmit, 2 * worth: verdictWait} {
		if a.price.USD = usd; s.judgePrice(a) != want {
			t.Errorf("at %v USD, worth %v: %v", usd, worth, s.judgePrice(a))
		}
	}
}

// TestWaitLeavesTimeForFollowers: a task starts early enough for its followers to run on spot and be interrupted.
func TestWaitLeavesTimeForFollowers(t *testing.T) {
	in, _ := dearNow(true)
	in.Spec.Tasks = append(in.Spec.Tasks, in.Spec.Tasks[0])
	in.Spec.Edges = []dag.Edge{{From: 0, To: 1}}
	in.Plan.Choice, in.Plan.TaskHours = []int32{0, 0}, []float64{1, 2}
	by, finishBy := in.BeginBy()
	// Each needs a start, a late price check, the work lost by an interruption, and another start: 40 minutes.
	last := in.Job.Deadline.Add(-2*time.Hour - 40*time.Minute)
	if !by[1].Equal(last) || !finishBy[0].Equal(last) || !by[0].Equal(last.Add(-time.Hour-40*time.Minute)) {
		t.Errorf("begin by %v, finish by %v", by, finishBy)
	}
}

func TestJudgePrice(t *testing.T) {
	for _, c := range []struct {
		name   string
		spot   bool
		usd    float64
		waited bool
		after  time.Duration
		want   verdict
		told   string
	}{
		{"expensive", true, 0.7, false, 0, verdictWait, "waits for a better price: 0.7 USD/h now in aws/r/z/m, worth 0.2"},
		{"expensive, planned on demand", false, 0.7, true, time.Hour, verdictWait, "begins by 14:20 UTC at the latest"},
		{"cheap", true, 0.2, true, time.Hour, verdictAdmit, ""},
		{"cheap, planned on demand", false, 0.2, true, time.Hour, verdictReplan, ""},
		{"expensive, and time has run out", true, 0.7, true, 6*time.Hour + 15*time.Minute, verdictReplan, ""},
		{"expensive, planned on demand, and time has run out", false, 0.7, true, 6*time.Hour + 15*time.Minute, verdictAdmit, ""},
		{"expensive, and there was never time", true, 0.7, false, 6*time.Hour + 50*time.Minute, verdictAdmit, ""},
	} {
		in, _ := dearNow(c.spot)
		begins, tables, err := in.Waits(context.Background())
		if err != nil || len(begins) != 1 {
			t.Fatal(begins, err)
		}
		a := &admission{price: &bid.Waiting{Begin: begins[0], Worth: tables[0], USD: c.usd, Work: 1, Tick: in.Tick}}
		if c.waited {
			a.task.WaitSince = in.Now
		}
		s := &Session{u: recordcache.NewDraft(nil, in.Now.Add(c.after), 0)}
		if got := s.judgePrice(a); got != c.want {
			usd, wait := a.price.Wait(s.u.Now)
			t.Errorf("%s: %v, want %v (worth %v, waits %v)", c.name, got, c.want, usd, wait)
		}
		if told := a.price.Describe(s.u.Now); !strings.Contains(told, c.told) {
			t.Errorf("%s: the message is %q", c.name, told)
		}
	}
}
