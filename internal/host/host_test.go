package host_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	rsh.Reexec()
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		os.Exit(agent.Main(os.Environ(), "test", pool.RunWorker))
	}
	if len(os.Args) == 3 && os.Args[1] == "broker" {
		os.Exit(brokerMain(os.Args[2]))
	}
	os.Exit(m.Run())
}

// serve opens a host on a folder and serves it until the test ends or stop is called.
func serve(t *testing.T, opt host.Options) (h *host.Host, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if os.Getenv("HOST_LOG") != "" {
		opt.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	h, err := host.Open(ctx, opt)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(stop)
	return h, stop
}

// await waits until the job has finished, and returns it.
func await(t *testing.T, b *broker.Broker, id string) *apitypes.JobDetail {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; { // longer than this is a hang, even on a busy computer
		d, err := b.Views.JobDetail(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if d.State.Finished() {
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("not over in time: %+v", d)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestDemonstrationMovesAndResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays the demonstration")
	}
	h, _ := serve(t, host.Options{
		State: t.TempDir(), TimeScale: 0.002, Scenario: filepath.Join("..", "..", "examples", "demo-scenario.yaml"),
	})
	spec, err := read.File(filepath.Join("..", "..", "examples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	story, err := h.Broker().Views.Explain(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range story.Entries {
		t.Log(e.At.Format("15:04:05"), e.Kind, e.Task, e.Text)
	}
	if d.State != apitypes.JobSucceeded || d.Late || d.SpentUSD > d.BudgetUSD {
		t.Fatalf("%s late %v, %.2f USD: %s", d.State, d.Late, d.SpentUSD, d.Reason)
	}
	outcomes := map[apitypes.Outcome]int{}
	resumed := false
	for _, a := range d.Attempts {
		outcomes[a.Outcome]++
		resumed = resumed || a.ResumedFrom != ""
	}
	if outcomes[apitypes.OutcomeRefused] == 0 || outcomes[apitypes.OutcomePreempted] == 0 || !resumed {
		t.Errorf("outcomes %v, resumed %v", outcomes, resumed)
	}
}
