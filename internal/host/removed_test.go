package host_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestRemovedStateFolderEndsBrokerAndItsProcesses: a user removes the state folder of a running broker. The broker
// must fail and end all agents and tasks, including those that ignore SIGTERM and those of an earlier broker.
func TestRemovedStateFolderEndsBrokerAndItsProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a broker notices")
	}
	t.Parallel()
	for name, remove := range map[string]func(state string) error{
		"the folder is removed": os.RemoveAll,
		"the folder is renamed": func(state string) error { return os.Rename(state, state+".old") },
		"the records are removed": func(state string) error {
			return os.Remove(filepath.Join(state, "tradewind.db"))
		},
	} {
		for _, again := range []bool{false, true} {
			if again && name != "the folder is removed" {
				continue
			}
			removeState(t, name, remove, again)
		}
	}
}

func removeState(t *testing.T, name string, remove func(state string) error, again bool) {
	t.Helper()
	notes := t.TempDir()
	v := &victim{t: t, state: filepath.Join(t.TempDir(), "state")}
	v.start()
	t.Cleanup(func() { _ = v.cmd.Process.Kill() }) // if the test gives up early
	r := v.running()
	job := "apiVersion: tradewind/v1\nname: long\ntasks:\n  t: {run: \"trap '' TERM; echo x >" + notes +
		"/began; sleep 1000 & sleep 1000\", time: 2m, resources: {cpus: 2+}}\n"
	if err := call(r, http.MethodPost, "/v1/dags", strings.NewReader(job), &apitypes.JobView{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(notes, "began")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the task does not run\n%s", v.out.String())
		}
	}
	if again {
		v.kill()
		v.start()
		v.running()
	}
	if before := processesOf(t, v.state); len(before) < 3 {
		t.Fatalf("%s: only %d processes run: the test proves nothing", name, len(before))
	}
	if err := remove(v.state); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.cmd.Wait() }()
	var exit *exec.ExitError
	select {
	case err := <-ended:
		if !errors.As(err, &exit) || !strings.Contains(v.out.String(), host.ErrStateRemoved.Error()) {
			t.Errorf("%s: the broker ends with %v\n%s", name, err, v.out.String())
		}
	case <-time.After(90 * time.Second):
		t.Errorf("%s: the broker continues", name)
	}
	for range 200 { // a killed process disappears a moment later
		if len(processesOf(t, v.state)) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if left := processesOf(t, v.state); len(left) > 0 {
		t.Errorf("%s, broker started again %v: left over: %v", name, again, left)
	}
}
