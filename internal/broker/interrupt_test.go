package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestNoticeAfterAgentsStoppedEndsAttemptAtOnce: agents see an interruption notice on their machine, save their work
// and stop before the broker gets the notice. The remaining work must be replanned when the broker gets it, not
// minutes later when the machine is preempted.
func TestNoticeAfterAgentsStoppedEndsAttemptAtOnce(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h}}", nil)
	hello(t, p.b, p.claims(0, 0))
	p.report(0, "1", wire.Started)
	p.report(0, "2", wire.Stopped)
	if d := p.detail(); d.Attempts[0].Outcome != "" {
		t.Fatalf("without a notice the attempt is %+v", d.Attempts[0])
	}
	c := p.claims(0, 0)
	notice := events.New("1", "test", p.now, events.SpotInterrupted{
		Cluster: c.Cluster, Job: p.job, Kind: "interruption", At: p.now.Add(2 * time.Minute),
	})
	if errs := p.b.Functions.Handle(t.Context(), events.FnInterrupt, []events.Event{notice}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if d := p.detail(); d.Attempts[0].Outcome != apitypes.OutcomePreempted || d.TaskList[0].State == string(record.TaskRunning) {
		t.Errorf("after the notice the attempt is %+v, the task %s", d.Attempts[0], d.TaskList[0].State)
	}
	blocks, err := p.b.Views.Blocks(t.Context())
	if err != nil || len(blocks) != 1 {
		t.Errorf("blocks %+v, %v", blocks, err)
	}
}

// An on-demand machine ends. No spot market took it, so no market is blocked.
func TestOnDemandMachineThatEndsIsNotPreempted(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h, resources: {market: on-demand}}}", nil)
	hello(t, p.b, p.claims(0, 0))
	notice := events.New("1", "test", p.now, events.SpotInterrupted{
		Cluster: p.claims(0, 0).Cluster, Job: p.job, Kind: "taken", At: p.now,
	})
	if errs := p.b.Functions.Handle(t.Context(), events.FnInterrupt, []events.Event{notice}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	made := p.detail().Attempts[0]
	if made.Outcome != apitypes.OutcomeLost || made.Reason != "its machine has ended by itself" {
		t.Errorf("the attempt ends %s: %s", made.Outcome, made.Reason)
	}
	if blocks, err := p.b.Views.Blocks(t.Context()); err != nil || len(blocks) > 0 {
		t.Errorf("blocks %+v, %v", blocks, err)
	}
}

// A machine cannot start because of a setting of the account. This is not an interruption: the user must get the next
// step to do, and the next machine is bought in another region.
func TestMachineThatCannotStartBlocksItsRegion(t *testing.T) {
	const fault = "the broker may not use its key"
	for _, market := range []string{"spot", "on-demand"} {
		p := newAgentBench(t, "{t: {run: x, time: 2h, resources: {market: "+market+"}}}", nil)
		first := p.detail().Attempts[0].Offer
		notice := events.New("1", "test", p.now, events.SpotInterrupted{
			Cluster: p.claims(0, 0).Cluster, Job: p.job, Kind: "taken", At: p.now, Fault: fault,
		})
		if errs := p.b.Functions.Handle(t.Context(), events.FnInterrupt, []events.Event{notice}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if made := p.detail().Attempts[0]; made.Outcome != apitypes.OutcomeLost || made.Reason != fault {
			t.Errorf("%s: the attempt ends %s: %s", market, made.Outcome, made.Reason)
		}
		p.checkFaultBlock(first, fault)
	}
}

// A broker that gets no interruption notices must find a terminated machine by the cloud's list of machines.
func TestReconcileNamesFaultOfEndedMachine(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h}}", nil)
	first := p.detail().Attempts[0].Offer
	p.cloud[first.Cloud].ended(p.claims(0, 0).Cluster, "the broker may not use its key")
	p.now = p.now.Add(config.Default().StuckFor + config.Default().ListLag + time.Minute)
	look := events.New("look", "test", p.now, events.BrokerReconcile{})
	if errs := p.b.Functions.Handle(t.Context(), events.FnReconcile, []events.Event{look}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if made := p.detail().Attempts[0]; made.Outcome != apitypes.OutcomeLost || made.Reason != "the broker may not use its key" {
		t.Errorf("the attempt ends %s: %s", made.Outcome, made.Reason)
	}
	p.checkFaultBlock(first, "the broker may not use its key")
}

func (p *agentBench) checkFaultBlock(first apitypes.Offer, fault string) {
	p.t.Helper()
	blocks, err := p.b.Views.Blocks(p.t.Context())
	if err != nil || len(blocks) != 1 || blocks[0].Region != first.Region || blocks[0].InstanceType != "" ||
		!strings.Contains(blocks[0].Reason, fault) {
		p.t.Fatalf("blocks %+v, %v", blocks, err)
	}
	p.deliverAll()
	made := p.detail().Attempts
	if next := made[len(made)-1].Offer; len(made) < 2 || next.Region == first.Region {
		p.t.Errorf("after %s the next attempt is in %+v", first.Region, next)
	}
}

// The agents of launched machines never call. Their cost must be booked, and the next machines are bought elsewhere.
func TestLocationOfSilentMachinesIsBlocked(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, time: 2h}}", nil)
	first := p.detail().Attempts[0]
	p.now = p.now.Add(config.Default().BootWithin + time.Minute)
	look := events.New("look", "test", p.now, events.BrokerReconcile{})
	if errs := p.b.Functions.Handle(t.Context(), events.FnReconcile, []events.Event{look}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	blocks, err := p.b.Views.Blocks(t.Context())
	if err != nil || len(blocks) != 1 || !strings.Contains(blocks[0].Reason, "no agent") {
		t.Fatalf("blocks %+v, %v", blocks, err)
	}
	p.deliverAll()
	made := p.detail().Attempts
	if len(made) < 2 || made[len(made)-1].Offer == first.Offer {
		t.Errorf("after %+v the next attempt is in %+v", first.Offer, made)
	}
}
