package broker_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// record returns a stored record of the agentBench's job.
func stored[T any](p *agentBench, sort string) (v T) {
	p.t.Helper()
	for r := range p.store.All() {
		if r.Key.Partition == "job#"+p.job && r.Key.Sort == sort {
			if err := json.Unmarshal(r.Body, &v); err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("there is no %s", sort)
	return v
}

func (p *agentBench) report(task int, id string, e wire.Event) {
	p.t.Helper()
	c := p.claims(task, 0)
	if err := p.b.Agents.Report(context.Background(), c, wire.Report{ID: id, Attempt: c.Cluster, Event: e}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *agentBench) detail() *apitypes.JobDetail {
	p.t.Helper()
	d, err := p.b.Views.JobDetail(context.Background(), p.job)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// TestClusterStateIsNotCopiedToTaskAndAttempt: views show a task's start and end, though its own record has them only
// at the end, and its attempt's record only when its machine is gone.
func TestClusterStateIsNotCopiedToTaskAndAttempt(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h}}", nil)
	const task, attempt = "task#000000", "attempt#000000#0001"
	hello(t, p.b, p.claims(0, 0))
	begun := p.now.Add(time.Minute)
	p.now = begun
	p.report(0, "1", wire.Started)
	if r := stored[record.Task](p, task); r.State != record.TaskLaunching {
		t.Errorf("the record of a running task is %+v", r)
	}
	d := p.detail()
	if v := d.TaskList[0]; v.State != string(record.TaskRunning) || !v.Started.Equal(begun) {
		t.Errorf("the view of a running task is %+v", v)
	}
	ended := p.now.Add(time.Hour)
	p.now = ended
	p.report(0, "2", wire.Succeeded)
	if r := stored[apitypes.Attempt](p, attempt); r.Outcome != "" {
		t.Errorf("the record of an attempt with a machine is %+v", r)
	}
	if r := stored[record.Task](p, task); r.State != record.TaskSucceeded || !r.StartedAt.Equal(begun) || !r.EndedAt.Equal(ended) {
		t.Errorf("the record of a task that has succeeded is %+v", r)
	}
	check := func(when string, a apitypes.Attempt) {
		t.Helper()
		if a.Outcome != apitypes.OutcomeSucceeded || !a.Started.Equal(begun) || !a.Ended.Equal(ended) || a.Reason != "" {
			t.Errorf("%s the attempt is %+v", when, a)
		}
	}
	check("before its machine is gone", p.detail().Attempts[0])
	p.now = p.now.Add(time.Minute)
	p.deliverAll()
	check("after", p.detail().Attempts[0])
	check("in its record", stored[apitypes.Attempt](p, attempt))
}

func TestGangTaskRecordsThatItRuns(t *testing.T) {
	p := newAgentBench(t, "{a: {run: x, gang: g}, b: {run: x, gang: g}}", nil)
	for task := range 2 {
		hello(t, p.b, p.claims(task, 0))
	}
	p.deliverAll()
	p.report(0, "1", wire.Started)
	if r := stored[record.Task](p, "task#000000"); r.State != record.TaskRunning {
		t.Errorf("it is %+v", r)
	}
}

func TestCancelledTaskShowsItsStart(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	hello(t, p.b, p.claims(0, 0))
	p.report(0, "1", wire.Started)
	begun := p.now
	p.now = p.now.Add(time.Minute)
	if err := p.b.Users.Cancel(t.Context(), p.job, "not wanted"); err != nil {
		t.Fatal(err)
	}
	p.deliverAll()
	if v := p.detail().TaskList[0]; v.State != "cancelled" || !v.Started.Equal(begun) {
		t.Errorf("its view is %+v", v)
	}
}

// asking is a planner that records its last input.
type asking struct {
	broker.Planner
	in planinput.Input
}

func (a *asking) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	a.in = in
	return a.Planner.Plan(ctx, in)
}

func TestPlanCountsProgressOfRunningTask(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h, reference: m5.xlarge, resources: {instanceType: m5.xlarge}}, u: {run: x, after: [t]}}", nil)
	hello(t, p.b, p.claims(0, 0))
	p.report(0, "1", wire.Started)
	ports := p.b.Ports()
	planner := &asking{Planner: ports.Planner}
	ports.Planner = planner
	b := broker.New(config.Default(), ports)
	p.now = p.now.Add(30 * time.Minute)
	replan := events.New("1", "test", p.now, events.DAGReplan{Job: p.job, Plan: 1, Reason: "a test"})
	if errs := b.Functions.Handle(t.Context(), events.FnOptimize, []events.Event{replan}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if f := planner.in.Tasks[0]; f == nil || !f.Fixed || math.Abs(f.Hours-1.5) > 0.01 {
		t.Errorf("half an hour into a task of two hours, the planner's input is %+v", f)
	}
}
