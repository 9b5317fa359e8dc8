package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// brokerMain runs the broker as a process that can be killed. TestMain calls it.
func brokerMain(state string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := host.Open(ctx, host.Options{State: state, TimeScale: 0.02, MaxMachines: 12})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := h.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := h.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// victim is a broker process that is killed and started again on the same folder.
type victim struct {
	t     *testing.T
	state string
	cmd   *exec.Cmd
	out   bytes.Buffer
}

func (v *victim) start() {
	v.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		v.t.Fatal(err)
	}
	v.cmd = exec.Command(exe, "broker", v.state)
	v.cmd.Stderr = &v.out
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) kill() {
	_ = v.cmd.Process.Kill() // the process may have ended before the kill; then wait returns the reason
	err := v.cmd.Wait()
	if err != nil && !strings.Contains(err.Error(), "killed") {
		v.t.Fatalf("the broker ended by itself: %v\n%s", err, v.out.String())
	}
}

// running waits until the broker answers.
func (v *victim) running() host.Running {
	v.t.Helper()
	for range 2000 {
		if r, ok, err := host.Find(v.state); err == nil && ok && r.PID == v.cmd.Process.Pid {
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
	v.t.Fatalf("no broker answers\n%s", v.out.String())
	return host.Running{}
}

func call(r host.Running, method, path string, body io.Reader, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	req.Header.Set("Content-Type", "application/yaml")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	return json.Unmarshal(text, into)
}

// ladder returns a job of layers. Each task waits for two tasks of the layer before, and adds a line to its notes at
// each start.
func ladder(layers, width int, notes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: tradewind/v1\nname: ladder\ntasks:\n")
	for l := range layers {
		for w := range width {
			fmt.Fprintf(&b, "  t%d-%d:\n    run: echo \"$TRADEWIND_ATTEMPT\" >>%s/$TRADEWIND_TASK; sleep 0.4\n    time: 2m\n    resources: {cpus: 2+}\n", l, w, notes)
			if l > 0 {
				fmt.Fprintf(&b, "    after: [t%d-%d, t%d-%d]\n", l-1, w, l-1, (w+1)%width)
			}
		}
	}
	return b.String()
}

func TestJobFinishesOnceDespiteFiftyKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a broker fifty times")
	}
	t.Parallel()
	notes := t.TempDir()
	v := &victim{t: t, state: filepath.Join(t.TempDir(), "state")}
	v.start()
	t.Cleanup(func() { _ = v.cmd.Process.Kill() }) // if the test gives up early
	r := v.running()
	var job apitypes.JobView
	if err := call(r, http.MethodPost, "/v1/dags", strings.NewReader(ladder(24, 6, notes)), &job); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) //nolint:gosec // moments, not secrets
	// task -> number of its starts when it was first seen as succeeded
	succeeded := map[string]int{}
	for range 50 {
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		noteDone(t, v.state, job.ID, notes, succeeded)
		v.kill()
		v.start()
	}
	r = v.running()
	d := &apitypes.JobDetail{}
	for !d.State.Finished() {
		if err := call(r, http.MethodGet, "/v1/jobs/"+job.ID, http.NoBody, d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if d.State != apitypes.JobSucceeded {
		t.Errorf("%s: %s", d.State, d.Reason)
	}
	for task, n := range succeeded {
		if again := starts(t, notes, task); again != n {
			t.Errorf("%s had succeeded after %d starts and was started %d times", task, n, again)
		}
	}
	t.Logf("%d tasks in %d attempts, %d seen done between kills", d.Tasks, len(d.Attempts), len(succeeded))
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Errorf("stopping: %v\n%s", err, v.out.String())
	}
	if left := processesOf(t, v.state); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// noteDone records, for each task that has succeeded by now, how many times it had started.
func noteDone(t *testing.T, state, job, notes string, done map[string]int) {
	t.Helper()
	r, ok, err := host.Find(state)
	if err != nil || !ok {
		return // the broker was killed before it answered
	}
	var d apitypes.JobDetail
	if err := call(r, http.MethodGet, "/v1/jobs/"+job, http.NoBody, &d); err != nil {
		return
	}
	for _, task := range d.TaskList {
		if _, known := done[task.Name]; !known && task.State == "succeeded" {
			done[task.Name] = starts(t, notes, task.Name)
		}
	}
}

func starts(t *testing.T, notes, task string) int {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(notes, task))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(body, []byte("\n"))
}

// processesOf returns the processes that use a state folder.
func processesOf(t *testing.T, state string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc to look for processes in")
	}
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// the process may have ended, or belong to another user
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // as above
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if bytes.Contains(env, []byte(state)) || bytes.Contains(line, []byte(state)) || strings.HasPrefix(cwd, state) {
			out = append(out, e.Name()+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return out
}
