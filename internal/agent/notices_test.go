package agent_test

import (
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// A notice comes before the agent has work. The agent watches from its start, so the work must get the notice as soon
// as it comes.
func TestMainObeysMetadataNotice(t *testing.T) {
	machine := &imdstest.Machine{ID: "i-0abc"}
	machine.Interrupt(time.Now().Add(2 * time.Minute))
	metadata := httptest.NewServer(machine)
	defer metadata.Close()
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	cmd.Env = append(cmd.Env, notices.EnvCloud+"=imds", "AWS_EC2_METADATA_SERVICE_ENDPOINT="+metadata.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	b.Run(node, task(t, "a1", `echo ready; while :; do sleep 0.01; done`))
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if got := b.Events(node, "a1"); !slices.Contains(got, wire.NoticeSeen) {
		t.Errorf("events %v", got)
	}
	if r := b.Report(node, "a1", wire.NoticeSeen); r.Notice < time.Minute || r.Notice > 2*time.Minute {
		t.Errorf("%+v", r)
	}
}

// A preemption on Google Cloud is an ACPI shutdown: systemd may send SIGTERM to the agent before the metadata server
// reports anything, and the power is cut half a minute later. The task must get that time to save its work. Source:
// Compute Engine API v1, Scheduling.preemptionNoticeDuration and skipGuestOsShutdown.
func TestGoogleSIGTERMSavesWork(t *testing.T) {
	metadata := httptest.NewServer(&imdstest.GoogleMachine{ID: "4815162342"})
	defer metadata.Close()
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	cmd.Env = append(cmd.Env, notices.EnvCloud+"=gcp", notices.EnvURL+"="+metadata.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	work := task(t, "a1", `trap 'echo saved >"$TRADEWIND_CHECKPOINT/state"; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	work.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, work)
	b.AwaitLog(node, "a1", "ready")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if got := b.Events(node, "a1"); !slices.Contains(got, wire.NoticeSeen) || !slices.Contains(got, wire.Checkpointed) {
		t.Fatalf("events %v: the notice is not reported, or nothing is saved", got)
	}
	if r := b.Report(node, "a1", wire.NoticeSeen); r.Notice < 20*time.Second || r.Notice > 30*time.Second {
		t.Errorf("the notice came %s ahead", r.Notice)
	}
}

func TestMainFailsWithoutWatcher(t *testing.T) {
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	cmd.Env = append(cmd.Env, notices.EnvCloud+"=moon")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
}
