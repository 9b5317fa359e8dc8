package attempt

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A spot machine is kept while its price is at most the bid, with a tolerance for rounding. A surcharge counts as
// part of the price. Without a budget or a bid, the price does not matter.
func TestBudgetAllowsBid(t *testing.T) {
	for name, c := range map[string]struct {
		budget, most, usd, surcharge float64
		leaves                       bool
	}{
		"less than the bid":              {10, 1.5, 1.4, 0, false},
		"the bid":                        {10, 1.5, 1.5, 0, false},
		"the bid, and what is rounded":   {10, 1.5, 1.5 + record.CentsEps, 0, false},
		"more":                           {10, 1.5, 1.6, 0, true},
		"more with what it takes beside": {10, 1.5, 1.4, 0.2, true},
		"as much with that":              {10, 1.5, 1.25, 0.25, false},
		"more, and no budget":            {0, 1.5, 1.6, 0, false},
		"nothing was bid":                {10, 0, 1.6, 0, false},
	} {
		st, now := onSpot(0)
		st.Job.BudgetUSD, st.Cluster.MaxUSD, st.usd, st.Attempt.SurchargeUSD = c.budget, c.most, c.usd, c.surcharge
		if why, reason := st.leave(now); (why != "") != c.leaves || c.leaves && why != record.LeaveForPrice {
			t.Errorf("%s: %q (%s)", name, why, reason)
		}
	}
}

// The spot machines of a gang are left together. The task with the least time to spare decides when.
func TestTightestGangMemberDecidesToLeave(t *testing.T) {
	for name, c := range map[string]struct {
		others []time.Duration // time to the deadline of each; each has 20 minutes of work, none of it saved
		want   string
	}{
		"itself":                {[]time.Duration{3 * time.Hour}, "2h0m0s of work remains and 2h25m0s to do it in"},
		"another":               {[]time.Duration{32 * time.Minute}, "20m0s of work remains and 32m0s to do it in"},
		"itself before another": {[]time.Duration{38 * time.Minute}, "2h0m0s of work remains and 2h25m0s to do it in"},
		"the tightest of others": {[]time.Duration{34 * time.Minute, 32 * time.Minute, 33 * time.Minute},
			"20m0s of work remains and 32m0s to do it in"},
		"the first of two alike": {[]time.Duration{35 * time.Minute}, "2h0m0s of work remains and 2h25m0s to do it in"},
		"one is late anyway":     {[]time.Duration{10 * time.Minute}, ""},
	} {
		st, now := onSpot(145 * time.Minute) // 2h10m of work are unsaved: 15 minutes to spare
		for i, left := range c.others {
			l := Losing{Task: record.Task{Index: i + 1}, Cluster: record.Cluster{Task: i + 1}}
			spec := &dag.Task{Time: dag.TimeEstimate{Default: 20 * time.Minute}, Checkpoint: &dag.Checkpoint{}}
			st.others = append(st.others, member{l, spec})
			st.bids.FinishBy = append(st.bids.FinishBy, now.Add(left))
		}
		why, reason := st.leave(now)
		if (why != "") != (c.want != "") || !strings.HasPrefix(reason, c.want) {
			t.Errorf("%s: %q (%s)", name, why, reason)
		}
	}
}

// A task leaves its machine if the price is more than the remaining work is worth there, but not in the first
// minutes. A task without a deadline is treated as if it had three times its total run time.
func TestPriceMakesTaskLeave(t *testing.T) {
	table, err := bidding.NewWorth(context.Background(), bidding.LiveTask{USD: 0.3, OnDemandUSD: 1, Work: 3, Left: 9,
		LossesPerHour: 0.2, Restart: 1})
	if err != nil {
		t.Fatal(err)
	}
	unhurried, hurried := table.MaxUSD(2, 9), table.MaxUSD(2, 4)
	// with little time left, a price spike is acceptable: a start elsewhere would take too long
	if unhurried+0.02 >= hurried {
		t.Fatalf("worth %v with time, and %v without: the test could not tell them apart", unhurried, hurried)
	}
	for name, c := range map[string]struct {
		usd     float64
		started time.Duration // how long ago
		left    time.Duration // time to the deadline; 0 means no deadline
		leaves  bool
	}{
		"worth it, with all the time": {unhurried, time.Hour, 0, false},
		"not worth it":                {unhurried + 0.01, time.Hour, 0, true},
		"worth it by its date":        {hurried, time.Hour, 4 * time.Hour, false},
		"not worth it by its date":    {hurried + 0.01, time.Hour, 4 * time.Hour, true},
		"it has just begun":           {4, 20*time.Minute - time.Second, 0, false},
		"it has begun a while ago":    {4, 20 * time.Minute, 0, true},
		"nobody has told a price":     {0, time.Hour, 0, false},
	} {
		st, now := onSpot(c.left)
		st.Attempt.Started = now.Add(-c.started)
		st.usd, st.bids.Tables, st.bids.Table = c.usd, []*bidding.Worth{table}, []int32{0}
		if why, reason := st.leave(now); (why != "") != c.leaves || c.leaves && why != record.LeaveForPrice {
			t.Errorf("%s: %q (%s)", name, why, reason)
		}
	}
}

// The longer the time until the next check, the earlier a task must leave its machine.
func TestMarginIsAddedToNeededTime(t *testing.T) {
	s := running(t)
	s.cfg.Restart, s.cfg.TickEvery = 10*time.Minute, 10*time.Minute
	l, _, err := LoadLosing(s, "j.1.1")
	if err != nil {
		t.Fatal(err)
	}
	l.Task.Progress = 0.5 // half an hour of work remains; the deadline is 10:05
	for i := 2; i < len(s.bids.FinishBy); i++ {
		s.bids.FinishBy[i] = s.now.Add(9 * time.Hour)
	}
	for _, c := range []struct {
		at, margin time.Duration
		leaves     bool
	}{{14 * time.Minute, 0, false}, {16 * time.Minute, 0, true},
		{5 * time.Minute, 10 * time.Minute, false}, {6 * time.Minute, 10 * time.Minute, true}} {
		l.Attempt.Resumed, l.Attempt.Started = 0.5, s.now.Add(c.at)
		d, err := DecideStay(s, s.cfg, l, c.margin, s.now.Add(c.at))
		if err != nil || (len(d.Writes) > 0) != c.leaves {
			t.Errorf("at %v, with %v to spare: %+v, %v", c.at, c.margin, d.Writes, err)
		}
	}
}

// A task is unconstrained if neither its deadline nor its job's budget nor the value of its work can make it leave
// its machine.
func TestFree(t *testing.T) {
	resumes, begins := &dag.Task{Checkpoint: &dag.Checkpoint{}}, &dag.Task{Run: "x"}
	table := record.Bids{Table: []int32{-1, 0}, Tables: []*bidding.Worth{{}}}
	for name, c := range map[string]struct {
		budget float64
		bids   record.Bids
		task   *dag.Task
		index  int
		free   bool
	}{
		"nothing is bid":                   {0, record.Bids{}, resumes, 0, true},
		"it has no table":                  {0, table, resumes, 0, true},
		"it came after the bids":           {0, table, resumes, 2, true},
		"its price decides":                {0, table, resumes, 1, false},
		"it could not go on elsewhere":     {0, table, begins, 1, true},
		"the job has a budget":             {10, record.Bids{}, resumes, 0, false},
		"and its date counts":              {0, record.Bids{FinishBy: make([]time.Time, 2)}, resumes, 0, false},
		"its date counts, without a table": {0, record.Bids{FinishBy: make([]time.Time, 2)}, begins, 0, false},
	} {
		if got := IsUnconstrained(record.Job{BudgetUSD: c.budget}, &c.bids, c.task, c.index); got != c.free {
			t.Errorf("%s: %v", name, got)
		}
	}
	plan := &record.Plan{Choice: []int32{0, 0}, Offers: []record.Planned{{Offer: apitypes.Offer{Spot: true}}}}
	spec := &dag.Job{Tasks: []dag.Task{*begins, *begins}}
	spec.Tasks[1].Resources = []dag.Resources{{}}
	if tooLate(spec, plan, &record.Bids{FinishBy: make([]time.Time, 1)}, 1, config.Default(), time.Now()) {
		t.Error("a task added after the bids has no deadline, but is too late for it")
	}
}
