package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// TestTaskRunsInItsImage: setup, command, inputs, outputs and variables work as without a container, but the programs
// are those of the image.
func TestTaskRunsInItsImage(t *testing.T) {
	environ := containertest.Environ(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: append(environ, "LANG=of-the-machine")})
	data := filepath.Join(t.TempDir(), "data")
	writeFile(t, filepath.Join(data, "a.txt"), "input")
	w := task(t, "a1", `cat /etc/image /installed /data/a.txt ~/own/a.txt; echo " $MINE lang=$LANG $(id -u)"
cp /data/a.txt $TRADEWIND_OUTPUT/kept; echo rank $TRADEWIND_NODE_RANK; exit 0`)
	w.Image, w.Setup = containertest.Image, "echo set up > /installed"
	w.Env = map[string]string{"MINE": "it's mine"}
	w.Inputs = []wire.Input{{URI: data, Path: "/data"}, {URI: data, Path: "~/own"}}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if want := "busybox\nset up\ninputinput it's mine lang= 0\nrank 0\n"; !strings.HasSuffix(b.Log(node, "a1"), want) {
		t.Errorf("log %q, want %q at its end", b.Log(node, "a1"), want)
	}
	kept := filepath.Join(storeDir(w), wire.OutputPrefix(w.Prefix, "a1"), "0", "files", "kept")
	if got, err := os.ReadFile(kept); string(got) != "input" || err != nil {
		t.Errorf("output %q, %v", got, err)
	}
	out, err := exec.Command("podman", "ps", "--all", "--quiet", "--filter", "name=tradewind-a1-").Output()
	if len(out) > 0 || err != nil {
		t.Errorf("left behind: %s, %v", out, err)
	}
}

// TestSecretInContainer: a secret must be in its task's environment, and in no file that the container or its engine
// keeps.
func TestSecretInContainer(t *testing.T) {
	environ := containertest.Environ(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	w := task(t, "a1", `printf '%s\n' "${#TOKEN} $TOKEN"; grep -rl "$TOKEN" $TRADEWIND_OUTPUT/../.. 2>/dev/null; exit 0`)
	w.Image, w.Setup = containertest.Image, `[ -n "$TOKEN" ]`
	w.Secrets = map[string]string{"TOKEN": "it's hunter2"}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if want := "\n12 ***\n"; !strings.HasSuffix(b.Log(node, "a1"), want) {
		t.Errorf("log %q, want %q at its end", b.Log(node, "a1"), want)
	}
}

func TestContainerTaskFailsStopsAndSaves(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many containers")
	}
	environ := containertest.Environ(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	w := task(t, "a1", "echo to standard error >&2; exit 5")
	w.Image = containertest.Image
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Failed || r.ExitCode != 5 || r.Message != "to standard error" {
		t.Errorf("%+v", r)
	}

	w = task(t, "a2", `trap 'echo saved > $TRADEWIND_CHECKPOINT/state; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	w.Image, w.Checkpoint = containertest.Image, &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a2", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	if r := b.Result(node, "a2"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	saved := b.Report(node, "a2", wire.Checkpointed)
	body, err := os.ReadFile(filepath.Join(storeDir(w), saved.Prefix, "files", "state"))
	if string(body) != "saved\n" || err != nil {
		t.Errorf("checkpoint %q, %v", body, err)
	}

	w = task(t, "a3", "true")
	w.Image = "127.0.0.1:1/no/such:image"
	b.Run(node, w)
	if r := b.Result(node, "a3"); r.Event != wire.Failed || r.Phase != wire.PhaseStage || !strings.Contains(r.Message, "cannot pull 127.0.0.1:1/no/such:image") {
		t.Errorf("%+v", r)
	}
}

// TestTaskRunsImageEntrypoint: the image's entrypoint runs in the image's directory, with the task's arguments, or
// with the image's if the task has none.
func TestTaskRunsImageEntrypoint(t *testing.T) {
	environ := containertest.Environ(t)
	const image = "localhost/tradewind-test:entry"
	build := exec.Command("podman", "build", "--pull=never", "--quiet", "--tag", image, "-")
	build.Env = environ
	build.Stdin = strings.NewReader("FROM " + containertest.Image + "\n" +
		`ENTRYPOINT ["/bin/echo", "it's"]` + "\n" + `CMD ["two  words"]` + "\nWORKDIR /etc\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	w := task(t, "a1", `cd $TRADEWIND_IMAGE_WORKDIR; cat image; sh $TRADEWIND_IMAGE_ENTRYPOINT
exec sh $TRADEWIND_IMAGE_ENTRYPOINT mine`)
	w.Image = image
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if want := "busybox\nit's two  words\nit's mine\n"; !strings.HasSuffix(b.Log(node, "a1"), want) {
		t.Errorf("log %q, want %q at its end", b.Log(node, "a1"), want)
	}
}
