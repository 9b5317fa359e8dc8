package azure_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TestMain makes this test binary the agent of the machines that it boots.
func TestMain(m *testing.M) {
	proc.Reexec()
	if os.Getenv(agent.EnvEndpoint) != "" {
		os.Exit(agent.Main(os.Environ(), "test", nil))
	}
	os.Exit(m.Run())
}

// The whole path from a launch to a result and an eviction: the launch boots the real script and agent, the machine
// proves its identity, and its task gets the notice of the eviction.
func TestMachineRunsTaskAndIsEvicted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\nexec '" + self + "' \"$@\"\n"
	sum := sha256.Sum256([]byte(program))
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, program) }))
	t.Cleanup(store.Close)
	authority, err := imdstest.NewAzureAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b := agenttest.New(t)
	b.Program(store.URL)
	w := newWorld(t, arm.Config{Dir: t.TempDir(), Authority: authority, Environment: []string{"TRADEWIND_PAUSE=0.1"}},
		func(c *azure.Config) { c.Agents = driver.Agents{"amd64": hex.EncodeToString(sum[:])} })
	authority.Issuers = w.url + arm.IssuersPath
	s := spec("cluster", spot, 2)
	s.Bootstrap = cloud.Bootstrap{Endpoint: b.URL(), Tokens: b.Tokens("cluster", 2)}
	machines := w.launch(s)
	consoles := func() (text string) {
		for _, name := range w.arm.Left() {
			b, _ := os.ReadFile(w.arm.Console(name))
			text += string(b)
		}
		return text
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(consoles())
		}
	})

	known, err := identity.LocalAzure([]byte(authority.Certificates()))
	if err != nil {
		t.Fatal(err)
	}
	check, err := identity.NewAzure(known)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Config{Proven: []string{"azure"}}
	for rank, m := range machines {
		hello := b.Hello(agenttest.Node{Cluster: "cluster", Rank: rank})
		if hello.Proof == nil {
			t.Fatalf("rank %d sent no proof", rank)
		}
		who, err := check.Verify(t.Context(), hello.Proof.Document, hello.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		nodes := []record.Node{{Machine: machines[0].ID}, {Machine: machines[1].ID}}
		arriving := attempt.Arriving{Rank: rank, Cluster: record.Cluster{Offer: m.Offer, Account: m.Account, Nodes: nodes}}
		if why := arriving.Doubt(cfg, &who); why != nil {
			t.Errorf("rank %d is not accepted: %v", rank, why)
		}
		if arriving.Rank = 1 - rank; arriving.Doubt(cfg, &who) == nil {
			t.Errorf("rank %d is accepted as the other one", rank)
		}
	}

	node := agenttest.Node{Cluster: "cluster", Rank: 1}
	work := &wire.Assignment{
		Job: "job", JobName: "job", Task: "task", Attempt: "a1", Nodes: []string{"127.0.0.1"}, Run: `echo "on $TRADEWIND_MACHINE"; env`,
		Store: "file://" + t.TempDir(), Prefix: "jobs/job/task",
	}
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || !strings.Contains(b.Log(node, "a1"), "on "+machines[1].ID) {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if log := b.Log(node, "a1"); strings.Contains(log, s.Bootstrap.Tokens[0]) || strings.Contains(log, s.Bootstrap.Tokens[1]) {
		t.Errorf("the task can see a token: %s", log)
	}
	long := *work
	long.Attempt, long.Run = "a2", "echo began; exec sleep 600"
	b.Run(node, &long)
	b.AwaitLog(node, "a2", "began")
	if err := w.arm.Announce(machines[1].ID, time.Now().Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if r := b.Report(node, "a2", wire.NoticeSeen); r.Notice <= 0 || r.Notice > 31*time.Second {
		t.Errorf("%+v", r)
	}
	if err := w.arm.Evict(machines[1].ID); err != nil {
		t.Fatal(err)
	}
	if left, err := w.azure.Machines(t.Context(), ""); err != nil || len(left) != 1 || left[0].ID != machines[0].ID {
		t.Errorf("%+v, %v", left, err)
	}
	if text := consoles(); strings.Contains(text, s.Bootstrap.Tokens[0]) {
		t.Error("a token is on the console")
	}
	// A released machine shuts down. It is deleted when the deployment's machines are listed.
	b.SendCommand(agenttest.Node{Cluster: "cluster", Rank: 0}, wire.Work{Command: wire.Disconnect})
	for n := len(w.arm.Left()); n > 0; n = len(w.arm.Left()) {
		if _, err := w.azure.Machines(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		w.arm.Settle()
	}
	w.clean()
}
