package broker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// One of several machines of a task reports a failure. The reasons of the task, the attempt and the job, and the
// job's history, must name the exit code and the rank of the machine.
func TestFailureNamesExitCodeAndRank(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 4, time: 1h}}", nil)
	for rank := range 4 {
		hello(t, p.b, p.claims(0, rank))
	}
	c := p.claims(0, 2)
	err := p.b.Agents.Report(context.Background(), c, wire.Report{ID: "f", Attempt: c.Cluster, Event: wire.Failed,
		Phase: wire.PhaseRun, ExitCode: 7, Message: "MemoryError"})
	if err != nil {
		t.Fatal(err)
	}
	p.deliverAll()
	d := p.detail()
	a := d.Attempts[0]
	if a.Failure != (apitypes.Failure{Rank: 2, ExitCode: 7}) {
		t.Errorf("the attempt's failure is %+v", a.Failure)
	}
	const want = "exit code 7 on rank 2 of 4: MemoryError"
	if got := d.TaskList[0].Reason; got != want {
		t.Errorf("the task's reason is %q", got)
	}
	if got := d.Reason; got != "task t failed with "+want {
		t.Errorf("the job's reason is %q", got)
	}
	told := slices.ContainsFunc(p.story(), func(e apitypes.Entry) bool {
		return e.Kind == "failed" && strings.HasSuffix(e.Text, "ended (failed): "+want)
	})
	if !told {
		t.Errorf("the history is %+v", p.story())
	}
}

// Two of four launched machines never call the broker. It must name their ranks while it waits for them, and in the
// reason of the attempt when it gives them up.
func TestMachinesThatNeverAnsweredAreNamed(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 4, time: 1h}}", nil)
	for _, rank := range []int{0, 2} {
		hello(t, p.b, p.claims(0, rank))
	}
	if w := p.detail().TaskList[0].Waits; w != "" {
		t.Errorf("right after the launch it waits %q", w)
	}
	p.now = p.now.Add(5 * time.Minute)
	const never = "ranks 1 and 3 of 4 have never called the broker"
	if w := p.detail().TaskList[0].Waits; w != "for the machines of attempt 1: "+never {
		t.Errorf("it waits %q", w)
	}
	if !slices.ContainsFunc(p.story(), func(e apitypes.Entry) bool { return strings.Contains(e.Text, never) }) {
		t.Errorf("the history is %+v", p.story())
	}
	p.now = p.now.Add(11 * time.Minute)
	p.reconcile()
	a := stored[apitypes.Attempt](p, "attempt#000000#0001")
	if a.Outcome != apitypes.OutcomeLost || a.Reason != never+" within 15m0s of the launch" {
		t.Errorf("the attempt is %s: %s", a.Outcome, a.Reason)
	}
}

func TestNeverAnsweredNamesRanks(t *testing.T) {
	cl := record.Cluster{Nodes: make([]record.Node, 1)}
	if got := cl.NeverAnswered(); got != "its machine has never called the broker" {
		t.Error(got)
	}
	cl.Nodes = make([]record.Node, 9)
	cl.Nodes[0].Address = "10.0.0.1"
	if got := cl.NeverAnswered(); got != "ranks 1, 2, 3, 4, 5, 6, 7 and 8 of 9 have never called the broker" {
		t.Error(got)
	}
}
