package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

func TestTaskRunsAndIsReported(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Address: "10.0.0.7", Version: "v1"})
	w := task(t, "a1", `echo hello; echo error >&2; cat; echo made > $TRADEWIND_OUTPUT/file`)
	w.Setup = "echo setting up"
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	if got, want := b.Log(node, "a1"), "setting up\nhello\nerror\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if h := b.Hello(node); h.Address != "10.0.0.7" || h.Version != "v1" || len(h.Nonce) < 20 {
		t.Errorf("hello %+v", h)
	}
	if got := b.Events(node, "a1"); !slices.Equal(got, []wire.Event{wire.Started, wire.Succeeded}) {
		t.Errorf("events %v", got)
	}
	kept := filepath.Join(storeDir(w), wire.OutputPrefix(w.Prefix, "a1"), "0", "files", "file")
	if got, err := os.ReadFile(kept); err != nil || string(got) != "made\n" {
		t.Errorf("kept output %q, %v", got, err)
	}
	b.SendCommand(node, wire.Work{Command: wire.Disconnect})
	if err := a.wait(); err != nil {
		t.Errorf("after disconnect: %v", err)
	}
}

func TestFailureReportsPhaseExitCodeAndLastLines(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	for name, tc := range map[string]struct {
		setup, run, phase, message string
		code                       int
	}{
		"set-up":            {"echo broken >&2; exit 9", "echo not reached", wire.PhaseSetup, "broken", 9},
		"command":           {"echo fine", "echo one; echo two; exit 3", wire.PhaseRun, "one\ntwo", 3},
		"silent command":    {"echo fine", "exit 4", wire.PhaseRun, "exit code 4", 4},
		"terminated":        {"", "echo hello; kill -TERM $$", wire.PhaseRun, "killed by SIGTERM\nhello", 143},
		"crashed command":   {"", "(exit 139)", wire.PhaseRun, "a command was killed by SIGSEGV", 139},
		"goes on after one": {"", "false; true", "", "", 0},
	} {
		w := task(t, name, tc.run)
		w.Setup = tc.setup
		b.Run(node, w)
		r := b.Result(node, name)
		if r.Phase != tc.phase || r.ExitCode != tc.code || r.Message != tc.message {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestNodeFindsItsAddress(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	if h := b.Hello(node); h.Address != "127.0.0.1" { // the local address of a connection to a broker on loopback
		t.Errorf("%+v", h)
	}
}

func TestRefusedTokenEndsAgent(t *testing.T) {
	b := agenttest.New(t)
	b.Refuse(func(string) int { return 401 })
	if err := start(t, b, node, agent.Config{}).wait(); !errors.Is(err, agent.ErrRefused) || agent.ExitCode(err) != agent.ExitRefused {
		t.Errorf("%v", err)
	}
}

// TestHelloMayReturnWork: a broker that does not hold calls returns work and a pause. The agent must not poll before
// the pause has passed.
func TestHelloMayReturnWork(t *testing.T) {
	b := agenttest.New(t)
	b.SendCommand(node, wire.Work{Command: wire.Run, Assignment: task(t, "a1", "echo hello"), Pause: time.Hour})
	start(t, b, node, agent.Config{})
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	if n := b.Calls(wire.PathWork); n != 0 {
		t.Errorf("it polled for work %d times", n)
	}
}
