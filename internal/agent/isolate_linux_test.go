package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// needRoot skips the test if this process may not isolate tasks.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("only root can isolate tasks, and not in every container")
	}
}

// isolated starts the agent of a worker as a separate process, in a folder that other users may not enter. It returns
// the agent's folder and PID.
func isolated(t *testing.T, b *agenttest.Broker, n agenttest.Node, environ ...string) (dir string, pid int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state", "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), agent.EnvEndpoint+"="+b.URL(), agent.EnvDir+"="+dir, agent.EnvTokenFile+"=-",
		agent.EnvIsolate+"=1", "HOME=/root")
	cmd.Env = append(cmd.Env, environ...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(b.Token(n)), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	return dir, cmd.Process.Pid
}

// untilDone makes a task wait until finish is called.
const untilDone = `; until [ -e done ]; do sleep 0.01; done; echo finished`

func finish(t *testing.T, dir string) {
	t.Helper()
	touch(t, filepath.Join(dir, "attempts", "1", "work"), "done")
}

func TestTaskCannotReadOrEndItsNeighbour(t *testing.T) {
	needRoot(t)
	b := agenttest.New(t)
	other := agenttest.Node{Cluster: "other"}
	dir, pid := isolated(t, b, node)
	isolated(t, b, other)
	victim := task(t, "a1", `umask 0; echo "precious" >file; echo "precious" >/tmp/precious; echo "precious" >"$TRADEWIND_OUTPUT/result"
echo "PID $$"`+untilDone)
	victim.Secrets = wire.Secrets{"PASSWORD": "precious-secret"}
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	victim.Inputs = []wire.Input{{URI: "file://" + input}}
	b.Run(node, victim)
	b.AwaitLog(node, "a1", "PID ")
	_, said, _ := strings.Cut(b.Log(node, "a1"), "PID ")
	task1, _, _ := strings.Cut(said, "\n")
	if found, err := os.ReadFile("/proc/" + task1 + "/environ"); err != nil || !strings.Contains(string(found), "precious-secret") {
		t.Fatalf("the environment of the victim: %v, %q", err, found)
	}
	b.Run(other, task(t, "a2", fmt.Sprintf(`[ "$(id -u)" != 0 ] || echo "STOLEN root"
steal() { if out=$("$@" 2>&1); then echo "STOLEN $*: $out"; fi; }
for p in %[2]s %[3]d; do for f in environ mem maps root/etc/passwd; do steal head -c 100 /proc/$p/$f; done
  steal ls /proc/$p/cwd/; steal ls /proc/$p/fd/; steal cat /proc/$p/root/tmp/precious; steal kill -0 $p; steal kill -KILL $p; done
for d in %[1]s %[1]s/attempts %[1]s/attempts/1 %[1]s/attempts/1/work; do steal ls $d; steal touch $d/new; done
for f in work/file output/result inputs/input scripts/run log; do steal cat %[1]s/attempts/1/$f; done
steal cat /tmp/precious; steal cat /var/tmp/precious; steal grep -rl precious /tmp
for c in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
  for f in $(find $c -path '*/tradewind/*' \( -name 'memory.limit_in_bytes' -o -name memory.max -o -name cgroup.procs \) 2>/dev/null); do
    steal test -w $f; done; done
echo tried`, dir, task1, pid)))
	if r := b.Result(other, "a2"); r.Event != wire.Succeeded || b.Log(other, "a2") != "tried\n" {
		t.Errorf("%+v\n%s", r, b.Log(other, "a2"))
	}
	finish(t, dir)
	r := b.Result(node, "a1")
	if log := b.Log(node, "a1"); r.Event != wire.Succeeded || !strings.HasSuffix(log, "finished\n") {
		t.Errorf("the neighbour: %+v\n%s", r, log)
	}
}

// An isolated task runs as a user without an account. All files and folders that a task uses must work for that user.
func TestIsolatedTaskHasItsFiles(t *testing.T) {
	needRoot(t)
	b := agenttest.New(t)
	isolated(t, b, node)
	w := task(t, "a1", `set -e
[ "$(whoami)" = "$USER" ] && [ "$(id -gn)" = "$USER" ] && [ "$(cd ~ && pwd)" = "$HOME" ]
echo more >>"$TRADEWIND_INPUTS/input"; cat "$TRADEWIND_INPUTS/input"
echo more >>by-setup; echo here >~/file
echo a >"$TMPDIR/x"; [ "$(cat /tmp/x)" = a ] && [ "$(cat /var/tmp/x)" = a ]
mkdir "$TRADEWIND_OUTPUT/sub"; echo kept >"$TRADEWIND_OUTPUT/sub/result"; chmod 600 "$TRADEWIND_OUTPUT/sub/result"
echo state >>checkpoint/state; cat checkpoint/state by-setup`)
	w.Setup = `id -u >by-setup; touch /tmp/setup-was-here; rm /tmp/setup-was-here`
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Inputs = []wire.Input{{URI: "file://" + input}}
	w.Checkpoint = &wire.Checkpoint{Path: "checkpoint"}
	b.Run(node, w)
	r, log := b.Result(node, "a1"), b.Log(node, "a1")
	if r.Event != wire.Succeeded || log != "given\nmore\nstate\n0\nmore\n" {
		t.Errorf("%+v\n%s", r, log)
	}
	kept, err := os.ReadFile(filepath.Join(storeDir(w), wire.OutputPrefix(w.Prefix, "a1"), "0", "files", "sub", "result"))
	if err != nil || string(kept) != "kept\n" {
		t.Errorf("output %q, %v", kept, err)
	}
}

// Each task of a worker can read the files that the shared setup has written, but must not be able to change them.
func TestIsolatedTasksUseOneSetup(t *testing.T) {
	needRoot(t)
	b := agenttest.New(t)
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a1", "a2"} {
		n := agenttest.Node{Cluster: name}
		isolated(t, b, n, agent.EnvSetups+"="+filepath.Join(state, "setups"))
		w := task(t, name, `set -e; [ "$(id -u)" != 0 ]; cat venv/who ~/.local/bin/tool; . ~/.bashrc
if echo x >>venv/who || rm venv/who || touch venv/x || touch ~/.local/bin/x; then echo "CHANGED"; fi 2>/dev/null
touch ~/.local/mine ~/.mine mine; ls '`+state+`/setups' 2>/dev/null | wc -l`)
		w.Setup = `umask 0; mkdir -p venv ~/.local/bin ~/.cache/pip; id -u >venv/who; echo tool >~/.local/bin/tool; chmod 600 ~/.local/bin/tool
echo 'echo bashrc' >~/.bashrc; echo setup; pwd; echo "$HOME"`
		b.Run(n, w)
		r, log := b.Result(n, name), b.Log(n, name)
		want := "0\ntool\nbashrc\n1\n"
		if r.Event != wire.Succeeded || !strings.HasSuffix(log, want) || strings.Contains(log, "setup\n") != (name == "a1") {
			t.Errorf("%s: %+v\n%s", name, r, log)
		}
	}
}

func TestIsolatedTaskGetsNoticeAndSaves(t *testing.T) {
	needRoot(t)
	b := agenttest.New(t)
	isolated(t, b, node)
	w := task(t, "a1", `trap 'cat "$TRADEWIND_NOTICE"; echo x >checkpoint/x; exit' TERM; echo ready; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "checkpoint"}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped || strings.Contains(b.Log(node, "a1"), "cat:") {
		t.Errorf("%+v\n%s", r, b.Log(node, "a1"))
	}
	b.Report(node, "a1", wire.Checkpointed)
}

func TestOnlyIsolatedTaskAboveItsMemoryIsKilled(t *testing.T) {
	needRoot(t)
	needControlGroups(t)
	b := agenttest.New(t)
	other := agenttest.Node{Cluster: "other"}
	isolated(t, b, node)
	dir, _ := isolated(t, b, other)
	const limit = 64 << 20
	use := fmt.Sprintf("head -c %d /dev/zero | tail | wc -c; echo ready", limit+limit/10)
	neighbour, greedy := task(t, "a1", use+untilDone), task(t, "a2", use)
	neighbour.MemoryBytes, greedy.MemoryBytes, greedy.VCPUs = 2*limit, limit, 1
	b.Run(other, neighbour)
	b.AwaitLog(other, "a1", "ready")
	greedy.Run = "set -o pipefail; " + strings.TrimSuffix(use, "; echo ready")
	b.Run(node, greedy)
	if r := b.Result(node, "a2"); r.Event != wire.Failed || !strings.HasPrefix(r.Message, "out of memory: ") {
		t.Errorf("%+v\n%s", r, b.Log(node, "a2"))
	}
	finish(t, dir)
	if r := b.Result(other, "a1"); r.Event != wire.Succeeded {
		t.Errorf("the neighbour: %+v\n%s", r, b.Log(other, "a1"))
	}
}
