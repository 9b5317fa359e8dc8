package agent_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// smallDisk mounts a disk of 16 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	return dir
}

// fill fills a disk to the last byte.
func fill(t *testing.T, disk string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 4096); err == nil; {
		_, err = f.Write(piece)
	}
}

func TestFullDiskOfMachineIsNotTasksFailure(t *testing.T) {
	disk := smallDisk(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Dir: disk})
	b.Hello(node)
	fill(t, disk)
	w := task(t, "a1", "echo not reached")
	b.Run(node, w)
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Fault != wire.FaultDisk || !strings.Contains(r.Message, "no space left on device") {
		t.Errorf("%+v", r)
	}
	if log := b.Log(node, "a1"); strings.Contains(log, "not reached") {
		t.Errorf("log %q", log)
	}
}

func TestInputsLargerThanDiskAreNotTasksFailure(t *testing.T) {
	disk := smallDisk(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Dir: disk})
	w := task(t, "a1", "echo not reached")
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Inputs = []wire.Input{{URI: "file://" + in, Path: "in"}}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Fault != wire.FaultDisk || r.Phase != wire.PhaseStage {
		t.Errorf("%+v", r)
	}
}

// fullStore answers every PUT like a store with a full disk.
type fullStore struct{}

func (fullStore) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return http.DefaultTransport.RoundTrip(r)
	}
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{Status: "507 Insufficient Storage", StatusCode: http.StatusInsufficientStorage, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("no space is left on the store's disk")), Request: r}, errors.Join(err, r.Body.Close())
}

func TestFullStoreIsNotTasksFailure(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Transfer: stage.Transfer{Client: &http.Client{Transport: fullStore{}}, Tries: 1}})
	b.Run(node, task(t, "a1", "echo made >$TRADEWIND_OUTPUT/file"))
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Fault != wire.FaultStore || r.Phase != wire.PhaseOutputs || !strings.Contains(r.Message, "507") {
		t.Errorf("%+v", r)
	}
}

func TestTaskThatFillsItsDiskFailsAndIsToldSo(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Dir: smallDisk(t)})
	b.Run(node, task(t, "a1", "head -c 20000000 /dev/zero >$TRADEWIND_OUTPUT/big"))
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Fault != "" || r.ExitCode != 1 || !strings.HasSuffix(r.Message, "\nthe disk of its machine is full") {
		t.Errorf("%+v", r)
	}
}
