package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// loginSetup writes to ~/.bashrc as a user would. The new lines follow a line that ends the file in non-interactive
// shells.
const loginSetup = `cat >>~/.bashrc <<'END'
case $- in *i*) ;; *) [ -n "$BASH_VERSION" ] && return ;; esac
export FOUND=in-bashrc STATED=hidden PATH=$HOME/own:$PATH
greet() { echo "hello $1"; }
END
mkdir -p ~/own; printf '#!/bin/sh\necho own program\n' >~/own/mine; chmod +x ~/own/mine`

const loginRun = `echo "$FOUND $STATED $PYTHONUNBUFFERED"; greet you; mine; echo "bang!x" "$1"; cat ~/sky_workdir/here
false; [ -e $HOME/in/a.txt ] && cat ~/in/a.txt
(exit 3)`

const loginWant = "in-bashrc it's stated 1\nhello you\nown program\nbang!x \nhere\ninput"

// loginTask returns a task with this setup. Its input goes to the home directory.
func loginTask(t *testing.T, attempt string) *wire.Assignment {
	w := task(t, attempt, "echo here >here; "+loginRun)
	in := filepath.Join(t.TempDir(), "a.txt")
	writeFile(t, in, "input")
	w.Login, w.Setup, w.Env = true, loginSetup, map[string]string{"STATED": "it's stated"}
	w.Inputs = []wire.Input{{URI: in, Path: "~/in/a.txt"}}
	return w
}

// TestLoginTaskReadsBashrcFromSetup: the file is in the task's own home directory on a shared machine, and in the
// user's otherwise.
func TestLoginTaskReadsBashrcFromSetup(t *testing.T) {
	for name, sole := range map[string]bool{"shared": false, "the task's alone": true} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			b := agenttest.New(t)
			start(t, b, node, agent.Config{Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Sole: sole})
			w := loginTask(t, "a1")
			b.Run(node, w)
			if r := b.Result(node, "a1"); r.Event != wire.Failed || r.ExitCode != 3 || r.Phase != wire.PhaseRun {
				t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
			}
			if got := b.Log(node, "a1"); !strings.HasSuffix(got, loginWant) || strings.Contains(got, "job control") {
				t.Errorf("log %q, want %q", got, loginWant)
			}
			found, err := os.ReadDir(home)
			if err != nil || (len(found) > 0) != sole {
				t.Errorf("in the user's home: %v %v", found, err)
			}
			w = task(t, "a2", `echo "$FOUND"; greet you`) // a task without a login shell does not read ~/.bashrc
			b.Run(node, w)
			if r := b.Result(node, "a2"); r.ExitCode != 127 || !strings.HasPrefix(b.Log(node, "a2"), "\n") {
				t.Errorf("%+v %q", r, b.Log(node, "a2"))
			}
		})
	}
}

// TestLoginTaskInImageWithoutBash: a login task whose image has no bash must still read ~/.bashrc.
func TestLoginTaskInImageWithoutBash(t *testing.T) {
	environ := containertest.Environ(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	w := loginTask(t, "a1")
	w.Image = containertest.Image
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Failed || r.ExitCode != 3 {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if got := b.Log(node, "a1"); !strings.HasSuffix(got, loginWant) {
		t.Errorf("log %q, want %q", got, loginWant)
	}
}

// TestLoginTaskReceivesSIGTERM: an interactive shell ignores SIGTERM, but a login task must not.
func TestLoginTaskReceivesSIGTERM(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Grace: time.Hour})
	// The program prints "ready" when bash is waiting for it. A trap would miss a signal that arrives while bash
	// starts a program.
	w := task(t, "a1", `sh -c 'until grep -q "^State:.S" /proc/$PPID/status; do :; done; echo ready; exec sleep 1000'
echo went on; sleep 1000`)
	w.Login = true
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped || strings.Contains(b.Log(node, "a1"), "went on") {
		t.Errorf("%+v %s", r, b.Log(node, "a1"))
	}
	b = agenttest.New(t)
	start(t, b, node, agent.Config{Grace: time.Hour})
	// For the same reason, this task starts no program after it is ready.
	w = task(t, "a2", `trap 'kill $!; echo saved > $TRADEWIND_CHECKPOINT/state; exit 0' TERM
sleep 1000 & echo ready; wait`)
	w.Login, w.Checkpoint = true, &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a2", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	b.Result(node, "a2")
	saved := b.Report(node, "a2", wire.Checkpointed)
	if body, err := os.ReadFile(filepath.Join(storeDir(w), saved.Prefix, "files", "state")); string(body) != "saved\n" {
		t.Errorf("checkpoint %q, %v", body, err)
	}
}
