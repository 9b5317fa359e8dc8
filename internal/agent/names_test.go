package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/hostnames"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// The setup and the command of a task in a job group can use the names of the group's tasks. When the attempt has
// ended, with any result, the names must be removed.
func TestNamesOfJobGroupAreKnownWhileItRuns(t *testing.T) {
	const before = "127.0.0.1 localhost\n"
	for name, run := range map[string]string{"success": "true", "failure": "exit 3", "order": forever} {
		t.Run(name, func(t *testing.T) {
			hosts := filepath.Join(t.TempDir(), "hosts")
			if err := os.WriteFile(hosts, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			b := agenttest.New(t)
			a := start(t, b, node, agent.Config{Hosts: hostnames.File(hosts)})
			work := task(t, "a1", "cut -d' ' -f1-3 "+hosts+"\n"+run)
			work.Env = map[string]string{"SKYPILOT_JOBGROUP_NAME": "team"}
			work.Setup = "grep -c worker-1.team " + hosts
			work.Gang = &wire.Gang{Name: "team", Role: "lead", Members: []wire.Member{
				{Role: "lead", Attempt: "a1", Nodes: []string{"127.0.0.1"}},
				{Role: "worker", Attempt: "a2", Nodes: []string{"127.1.0.1", "127.1.0.2"}},
			}}
			b.Run(node, work)
			b.AwaitLog(node, "a1", "127.1.0.2 worker-1.team worker-1\n")
			if log := b.Log(node, "a1"); !strings.HasPrefix(log, "1\n"+before) {
				t.Errorf("log: %s", log)
			}
			if name == "order" {
				b.AwaitLog(node, "a1", "ready\n")
				b.SendCommand(node, wire.Work{Command: wire.Stop})
			} else {
				b.Result(node, "a1")
				b.SendCommand(node, wire.Work{Command: wire.Disconnect})
			}
			if err := a.wait(); err != nil {
				t.Error(err)
			}
			if after, err := os.ReadFile(hosts); string(after) != before || err != nil { //nolint:gosec // of the test
				t.Errorf("after the attempt: %s %v", after, err)
			}
		})
	}
}

// The file of names cannot be written. The task's log must report that.
func TestUnknownNamesAreReported(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Hosts: hostnames.File(t.TempDir())})
	work := task(t, "a1", "true")
	work.Env = map[string]string{"SKYPILOT_JOBGROUP_NAME": "team"}
	work.Gang = &wire.Gang{Name: "team", Role: "lead", Members: []wire.Member{
		{Role: "lead", Attempt: "a1", Nodes: []string{"127.0.0.1"}},
	}}
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("told: %+v", r)
	}
	b.AwaitLog(node, "a1", "the names of the group's tasks are not known here")
}
