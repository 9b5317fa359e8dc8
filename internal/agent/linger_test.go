package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// A task fails whose machine is to be kept. The failure must be reported at once, with its log and the time that the
// machine is kept. The agent then waits for the command to end.
func TestFailedTaskIsKeptUntilOrder(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Heartbeat: time.Millisecond})
	work := task(t, "a1", `echo oh dear; exit 3`)
	work.KeepOnFailure = time.Hour
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Failed || r.ExitCode != 3 || r.Keep != time.Hour {
		t.Errorf("told: %+v", r)
	}
	b.AwaitLog(node, "a1", "kept for 1h0m0s")
	failed := slices.Index(b.Events(node, "a1"), wire.Failed)
	b.ReportAfter(failed+1, node, "a1", wire.Alive) // the agent still sends heartbeats
	if !strings.HasPrefix(b.Log(node, "a1"), "oh dear\n") {
		t.Errorf("its log: %q", b.Log(node, "a1"))
	}
	b.SendCommand(node, wire.Work{Command: wire.Disconnect})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
}

func TestFailedTaskIsKeptForLimitedTime(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	work := task(t, "a1", `exit 3`)
	work.KeepOnFailure = time.Millisecond
	b.Run(node, work)
	b.Report(node, "a1", wire.Stopped)
	if all := b.Events(node, "a1"); !slices.Contains(all, wire.Failed) {
		t.Errorf("told: %v", all)
	}
}

// The machine is not kept for tasks that succeeded or were commanded to stop.
func TestOnlyFailedTasksAreKept(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Grace: time.Millisecond})
	work := task(t, "a1", `true`)
	work.KeepOnFailure = time.Hour
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || r.Keep != 0 {
		t.Errorf("told: %+v", r)
	}
	again := task(t, "a2", forever)
	again.KeepOnFailure = time.Hour
	b.Run(node, again)
	b.AwaitLog(node, "a2", "ready\n")
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	if r := b.Result(node, "a2"); r.Event != wire.Stopped {
		t.Errorf("told: %+v", r)
	}
}
