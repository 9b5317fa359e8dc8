package bootstrap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// TestMain makes this test binary the agent of the machines that it boots.
func TestMain(m *testing.M) {
	proc.Reexec()
	if os.Getenv(agent.EnvEndpoint) != "" {
		os.Exit(agent.Main(os.Environ(), "test", nil))
	}
	os.Exit(m.Run())
}

// The whole path from user data to a result: the machine downloads, verifies and starts the real agent. The agent
// reads and writes data with grants. The machine ends after a disconnect command.
func TestMachineBootsAndRunsTaskWithoutPermissions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "#!/bin/sh\nexec '"+self+"' \"$@\"\n")
	b := agenttest.New(t)
	node := agenttest.Node{Cluster: "cluster", Rank: 0}
	m.imds.LaunchIndex = 0
	b.Program(m.location)
	m.told.Endpoint, m.told.Tokens, m.told.Environment = b.URL(), b.Tokens("cluster", 1), map[string]string{
		bootstrap.EnvMetadata: m.metadata,
	}
	store := t.TempDir()
	if err := os.WriteFile(filepath.Join(store, "in.txt"), []byte("from the store\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		out, err := m.boot(m.script())
		if err != nil {
			out += err.Error()
		}
		ended <- out
	}()
	if hello := b.Hello(node); hello.Address != "127.0.0.9" {
		t.Errorf("address %q", hello.Address)
	}
	work := &wire.Assignment{
		Job: "job", JobName: "job", Task: "task", Attempt: "a1", Nodes: []string{"127.0.0.9"},
		Run:    `cat in.txt; echo made >"$TRADEWIND_OUTPUT/out.txt"; echo "$TRADEWIND_MACHINE"`,
		Inputs: []wire.Input{{URI: "file://" + store + "/in.txt", Path: "in.txt"}},
		Store:  "file://" + store, Prefix: "jobs/job/task",
	}
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "from the store") || strings.Contains(log, m.told.Tokens[0]) {
		t.Errorf("log %q", log)
	}
	again := *work // a child of the task, which reads the outputs from the store
	again.Attempt, again.Inputs, again.Run = "a2", nil, `cat "$TRADEWIND_INPUTS/parent/out.txt"`
	again.Parents = map[string]string{"parent": wire.OutputPrefix(work.Prefix, "a1")}
	b.Run(node, &again)
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded || b.Log(node, "a2") != "made\n" {
		t.Fatalf("%+v %q", r, b.Log(node, "a2"))
	}
	b.SendCommand(node, wire.Work{Seq: 100, Command: wire.Disconnect})
	if out := <-ended; strings.Contains(out, "exit status") || strings.Contains(out, m.told.Tokens[0]) {
		t.Errorf("the machine ended with an error, or printed its token:\n%s", out)
	}
}
