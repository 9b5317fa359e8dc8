package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// An output that is a link to another file of the task must be kept with its target.
func TestLinkedOutputIsKeptWithTarget(t *testing.T) {
	b := agenttest.New(t)
	w := task(t, "a1", `cd "$TRADEWIND_OUTPUT" && mkdir run-42 && echo weights >run-42/model && ln -s run-42 latest`)
	w.Outputs = []wire.Output{{Name: "model", Path: "latest"}}
	b.Run(node, w)
	start(t, b, node, agent.Config{})
	r := b.Result(node, "a1")
	child := task(t, "a2", `cat "$TRADEWIND_INPUTS/train/latest/model"`)
	child.Store, child.Parents = w.Store, map[string]string{"train": wire.OutputPrefix(w.Prefix, "a1")}
	b.Run(node, child)
	if c := b.Result(node, "a2"); r.Event == wire.Succeeded && c.Event != wire.Succeeded {
		t.Errorf("parent %v, child %v %q", r.Event, c.Event, c.Message)
	}
}

// A task leaves folders that are read-only for their owner, like Go's module cache. The agent must be able to remove
// them.
func TestReadOnlyFoldersAreRemoved(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can remove everything")
	}
	b := agenttest.New(t)
	b.Run(node, task(t, "a1", `mkdir -p go/pkg/mod/x && echo y >go/pkg/mod/x/y && chmod 555 go/pkg/mod/x; exit 1`))
	dir := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	start(t, b, node, agent.Config{Dir: dir})
	b.Result(node, "a1")
	b.Run(node, task(t, "a2", `true`))
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded {
		t.Errorf("the next attempt: %v in %v: %s", r.Event, r.Phase, r.Message)
	}
}

// The broker accepts a report but drops the log in it. The agent must send the log again.
func TestLogIsResentIfReportDroppedIt(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a log is sent again")
	}
	b := agenttest.New(t)
	b.RefuseLogs() // reports with a log fail; other reports and separate logs do not
	w := task(t, "a1", "echo the only line; sleep 14")
	w.Pace = wire.Pace{Tail: 8 << 10, Log: 200 * time.Millisecond, Alive: time.Minute}
	b.Run(node, w)
	start(t, b, node, agent.Config{})
	b.Result(node, "a1")
	time.Sleep(time.Second)
	if !strings.Contains(b.Log(node, "a1"), "the only line") {
		t.Errorf("the log is %q", b.Log(node, "a1"))
	}
}
