package gcp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TestMain makes this binary the agent of the machines that are launched.
func TestMain(m *testing.M) {
	proc.Reexec()
	if os.Getenv(agent.EnvEndpoint) != "" {
		os.Exit(agent.Main(os.Environ(), "test", nil))
	}
	os.Exit(m.Run())
}

// booting is a world whose machines are processes, and the broker that they call.
type booting struct {
	*world
	*agenttest.Broker
	launched []cloud.Machine
}

// newBooting launches a cluster of spot machines with the real boot script and agent.
func newBooting(t *testing.T, nodes int) *booting {
	t.Helper()
	return bootingOf(t, nodes, spot, func(*gcp.Config) {})
}

func bootingOf(t *testing.T, nodes int, o apitypes.Offer, change func(*gcp.Config)) *booting {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "#!/bin/sh\nexec '" + self + "' \"$@\"\n"
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, program)
	}))
	t.Cleanup(store.Close)
	b := &booting{Broker: agenttest.New(t)}
	b.Program(store.URL)
	sum := sha256.Sum256([]byte(program))
	b.world = newWorldOf(t, gce.Config{Dir: t.TempDir(), Environment: []string{"TRADEWIND_PAUSE=0.1"}}, func(c *gcp.Config) {
		c.Agents = driver.Agents{"": hex.EncodeToString(sum[:])}
		change(c)
	})
	s := spec("cluster", nodes, o)
	s.Bootstrap = cloud.Bootstrap{Endpoint: b.URL(), Tokens: b.Tokens("cluster", nodes)}
	b.launched = b.launch(s)
	return b
}

func (b *booting) assign(run string) *wire.Assignment {
	a := &wire.Assignment{
		Job: "job", JobName: "job", Task: "task", Attempt: "a1", Run: run,
		Store: "file://" + b.TempDir(), Prefix: "jobs/job/task",
	}
	for range b.launched {
		a.Nodes = append(a.Nodes, "127.0.0.1")
	}
	return a
}

// The machines must run the boot script, prove their identities, run a task, and end when they are released.
func TestMachinesBootProveIdentityAndRunTask(t *testing.T) {
	b := newBooting(t, 2)
	v, err := identity.NewGoogle(identity.GoogleConfig{Audience: b.URL(), Keys: b.url + "/oauth2/v3/certs"})
	if err != nil {
		t.Fatal(err)
	}
	for rank, launched := range b.launched {
		node := agenttest.Node{Cluster: "cluster", Rank: rank}
		hello := b.Hello(node)
		if hello.Proof == nil {
			t.Fatalf("rank %d sent no proof", rank)
		}
		m, err := v.Verify(t.Context(), hello.Proof.Document, hello.Nonce)
		if err != nil || m.ID != launched.ID || m.Account != launched.Account || m.Region != launched.Offer.Region {
			t.Errorf("rank %d proves %+v (%v), but %+v was launched", rank, m, err, launched)
		}
		if rank == 0 {
			work := b.assign(`echo "I am $TRADEWIND_MACHINE"`)
			work.Nodes = work.Nodes[:1]
			b.Run(node, work)
			if r := b.Result(node, "a1"); r.Event != wire.Succeeded || b.Log(node, "a1") != "I am "+launched.ID+"\n" {
				t.Errorf("%+v %q", r, b.Log(node, "a1"))
			}
		}
		b.SendCommand(node, wire.Work{Seq: 100, Command: wire.Disconnect})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.gce.Await(ctx, func(all []gce.Machine) bool {
		return !slices.ContainsFunc(all, func(m gce.Machine) bool { return m.Status != "TERMINATED" })
	}); err != nil {
		t.Fatal(err, b.gce.Machines())
	}
	// A stopped machine still exists.
	if err := b.gcp.Terminate(t.Context(), "cluster"); err != nil {
		t.Fatal(err)
	}
	b.none(b.gcp)
}

// Google preempts a machine. Its task must save its work before the machine ends.
func TestInterruptedMachineSavesWork(t *testing.T) {
	b := newBooting(t, 1)
	node := agenttest.Node{Cluster: "cluster", Rank: 0}
	b.Hello(node)
	work := b.assign(`trap 'echo saved >"$TRADEWIND_CHECKPOINT/state"; exit 0' TERM; echo running; while :; do sleep 0.1; done`)
	work.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, work)
	b.AwaitLog(node, "a1", "running")
	if !b.gce.Preempt(b.launched[0].ID) {
		t.Fatal("no such machine")
	}
	r := b.Report(node, "a1", wire.NoticeSeen)
	if r.Notice <= 0 || r.Notice > 30*time.Second {
		t.Errorf("the notice came %s ahead", r.Notice)
	}
	b.Report(node, "a1", wire.Checkpointed)
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	b.gce.FinishPreemption(b.launched[0].ID)
	found, err := b.gcp.Machines(t.Context(), "cluster")
	if err != nil || len(found) != 0 {
		t.Errorf("an interrupted spot machine is still listed: %+v %v", found, err)
	}
	if strings.Contains(b.Log(node, "a1"), "token") {
		t.Error("the log contains a token")
	}
}
