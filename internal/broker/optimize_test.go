package broker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// atWork is a planner that counts its calls, and can return another plan than its own.
type atWork struct {
	broker.Planner
	calls  int
	answer func(planinput.Input, *record.Plan)
	last   planinput.Input
}

func (p *atWork) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	p.calls++
	p.last = in
	plan, err := p.Planner.Plan(ctx, in)
	if err == nil && p.answer != nil {
		p.answer(in, plan)
	}
	return plan, err
}

// watched returns an agentBench with an atWork planner and a store that can make commits conflict.
func watched(t *testing.T, tasks string) (p *agentBench, plans *atWork, meet *meeting) {
	t.Helper()
	p = &agentBench{bench: newBench(t)}
	plans, meet = &atWork{Planner: p.b.Ports().Planner}, &meeting{Store: p.store}
	ports := p.b.Ports()
	ports.Planner, ports.Store = plans, meet
	p.b = broker.New(config.Default(), ports)
	p.submit(tasks, "1")
	return p, plans, meet
}

// TestPlanIsReusedAfterConflict: the commit of a plan conflicts. The plan must be reused, unless the conflict changed
// its inputs.
func TestPlanIsReusedAfterConflict(t *testing.T) {
	for name, c := range map[string]struct {
		other func(p *agentBench)
		later time.Duration
		want  int
	}{
		"something else": {func(*agentBench) {}, time.Second, 1},
		"a location is blocked": {func(p *agentBench) {
			p.write("blocks", "aws/////", apitypes.Block{Cloud: "aws", Kind: string(cloud.Auth), Until: p.now.Add(time.Hour)})
		}, time.Second, 2},
		"a while after": {func(*agentBench) {}, time.Minute, 2},
	} {
		p, plans, meet := watched(t, "{t: {run: x, time: 2h}}")
		meet.after = 1 // the first transaction only records that a try begins
		meet.other = func() {
			job := stored[record.Job](p, "job")
			p.write("job#"+p.job, "job", job)
			c.other(p)
			p.now = p.now.Add(c.later)
		}
		p.deliverAll()
		if job := stored[record.Job](p, "job"); plans.calls != c.want || job.Plan.Version != 1 || job.Bids.Version != 1 || job.State != apitypes.JobRunning {
			t.Errorf("if its commit conflicts with that of %s, the plan is made %d times and the job is %+v", name, plans.calls, job)
		}
	}
}

// write writes a record again without a change, which raises its version.
func (p *agentBench) write(partition, sort string, value any) {
	p.t.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		p.t.Fatal(err)
	}
	w := store.Write{Op: store.Put, Key: store.Key{Partition: partition, Sort: sort}, Expect: store.Any, Body: body}
	if err := p.store.Commit(context.Background(), store.Tx{Writes: []store.Write{w}}); err != nil {
		p.t.Fatal(err)
	}
}

// saving returns a job of two tasks. The machine of the first will be taken: the job is replanned while that task
// saves its work.
func saving(t *testing.T, answer func(planinput.Input, *record.Plan)) (*agentBench, *atWork) {
	t.Helper()
	p, plans, _ := watched(t, "{t: {run: x, time: 2h, checkpoint: {every: 15m, path: ckpt/}}, u: {run: x, time: 2h}}")
	p.deliverAll()
	for task := range 2 {
		hello(t, p.b, p.claims(task, 0))
		p.report(task, "1", wire.Started)
	}
	p.now = p.now.Add(time.Hour)
	plans.answer = answer
	p.report(0, "2", wire.NoticeSeen)
	return p, plans
}

func infeasible(_ planinput.Input, plan *record.Plan) {
	*plan = record.Plan{Status: record.PlanInfeasible, Message: "the budget is used up"}
}

// TestReplanRunsWhileInterruptedTaskSaves: a machine reports an interruption notice. The broker must command the
// task's agents to save, block the market and request a plan. In that plan, the saving task may move and the other
// stays.
func TestReplanRunsWhileInterruptedTaskSaves(t *testing.T) {
	p, plans := saving(t, nil)
	if got, want := strings.Join(p.pending(), " "), strings.Join([]string{events.TypeDAGReplan, events.TypeLocationBlocked}, " "); !strings.Contains(got, want) {
		t.Errorf("a notice emits %s, want %s", got, want)
	}
	if w, err := p.b.Agents.Work(t.Context(), p.claims(0, 0), 1); err != nil || w.Command != wire.SaveAndStop {
		t.Errorf("the agents got %+v, %v", w, err)
	}
	p.deliverAll()
	if plans.calls != 2 || plans.last.Tasks[0].Fixed || !plans.last.Tasks[1].Fixed {
		t.Errorf("%d plans, the last of %+v and %+v", plans.calls, plans.last.Tasks[0], plans.last.Tasks[1])
	}
	if task := stored[record.Task](p, "task#000000"); task.Attempt != 1 || task.State != record.TaskLaunching {
		t.Errorf("while it saves, the task is %+v", task)
	}
	p.report(0, "3", wire.Stopped)
	p.deliverAll()
	if task := stored[record.Task](p, "task#000000"); task.Attempt != 2 || task.Plan != 2 || plans.calls != 2 {
		t.Errorf("after %d plans, the task is %+v", plans.calls, task)
	}
}

// TestInfeasiblePlanWaitsForSavingTask: while a task saves its work, no plan is feasible. The job must be planned
// again when the machine has saved the work, or when the task has finished.
func TestInfeasiblePlanWaitsForSavingTask(t *testing.T) {
	for _, end := range []wire.Event{wire.Stopped, wire.Succeeded} {
		p, plans := saving(t, infeasible)
		p.deliverAll()
		if job := stored[record.Job](p, "job"); job.State != apitypes.JobRunning || job.Plan.Version != 1 || plans.calls != 2 {
			t.Fatalf("while it saves, after %d plans, the job is %+v", plans.calls, job)
		}
		plans.answer = nil
		p.report(0, "3", end)
		p.deliverAll()
		if job := stored[record.Job](p, "job"); job.State != apitypes.JobRunning || job.Plan.Version != 2 || plans.calls != 3 {
			t.Errorf("when it has %s, after %d plans, the job is %+v", end, plans.calls, job)
		}
	}
	p, _ := saving(t, infeasible)
	p.report(0, "3", wire.Stopped)
	p.deliverAll()
	if job := stored[record.Job](p, "job"); job.State == apitypes.JobRunning {
		t.Errorf("without a plan when it has saved, the job is %+v", job)
	}
}

// TestBidsFollowPrices: bids are made again when a price differs by a tenth from the price of the current bids. A
// finished plan gets no new bids.
func TestBidsFollowPrices(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 20h, checkpoint: {every: 15m, path: ckpt/}}}", nil)
	offer := strings.TrimSuffix(stored[apitypes.Attempt](p, "attempt#000000#0001").OfferID, "/spot")
	usd := stored[apitypes.Attempt](p, "attempt#000000#0001").Offer.USDPerHour
	tokens := map[string]bool{stored[record.Job](p, "job").Bids.Token: true}
	for i, c := range []struct {
		times float64
		anew  bool
	}{{1, true}, {1.05, false}, {1.09, false}, {1.11, true}, {1.2, false}, {0.9, true}} { // no price was known before the first one
		p.now = p.now.Add(10 * time.Minute)
		p.tick(string(rune('a'+i)), events.PriceTick{Offer: offer, USD: c.times * usd})
		p.deliverAll()
		job := stored[record.Job](p, "job")
		if anew := !tokens[job.Bids.Token]; anew != c.anew || job.Bids.Version != 1 || job.Plan.Version != 1 {
			t.Errorf("at %v times the price: new bids %v, want %v; plan %d, bids %d", c.times, anew, c.anew, job.Plan.Version, job.Bids.Version)
		}
		tokens[job.Bids.Token] = true
	}
	if err := p.b.Users.Cancel(t.Context(), p.job, "enough"); err != nil {
		t.Fatal(err)
	}
	p.deliverAll()
	before := stored[record.Job](p, "job")
	p.tell(events.FnBid, events.New("late", "test", p.now, events.PriceMoved{Job: p.job, Plan: 1, Offer: offer, USD: 2 * usd, FromUSD: usd}))
	if after := stored[record.Job](p, "job"); after.Bids != before.Bids {
		t.Error("bids are made for a finished job")
	}
}
