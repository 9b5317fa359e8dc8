package agent_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// The agent starts to watch at its start: a notice may come before the work, which must then get it at once.
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

func TestMainFailsWithoutWatcher(t *testing.T) {
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	cmd.Env = append(cmd.Env, notices.EnvCloud+"=moon")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
}
