package agent_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	rsh.Reexec()
	if os.Getenv(agent.EnvEndpoint) != "" {
		os.Exit(agent.Main(os.Environ(), "test", nil))
	}
	os.Exit(m.Run())
}

// node is the only node of most tests.
var node = agenttest.Node{Cluster: "cluster"}

// running is an agent in this process.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
}

// start runs an agent for a node of b until the test ends.
func start(t *testing.T, b *agenttest.Broker, n agenttest.Node, cfg agent.Config) *running {
	t.Helper()
	cfg.Endpoint, cfg.Token = b.URL(), b.Token(n)
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	if cfg.LogPause == 0 {
		cfg.LogPause = time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- agent.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		r.wait()
	})
	return r
}

// wait waits for the agent to end, and returns Run's error.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err // for later calls
		return err
	case <-time.After(time.Minute):
		r.t.Fatal("the agent did not end")
		return nil
	}
}

// task is a minimal assignment, with a store in its own directory.
func task(t *testing.T, attempt, run string) *wire.Assignment {
	t.Helper()
	return &wire.Assignment{
		Job: "job", JobName: "name", Task: "task", Attempt: attempt, Run: run, Nodes: []string{"127.0.0.1"},
		Store: "file://" + t.TempDir(), Prefix: "jobs/job/task",
	}
}

// storeDir returns the directory of an assignment's store.
func storeDir(w *wire.Assignment) string { return strings.TrimPrefix(w.Store, "file://") }
