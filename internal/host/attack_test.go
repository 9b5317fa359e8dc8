package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/attack"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// loot is the script of a task that writes down all that it can read on its machine, and then waits for a file. It
// reads its environment, its folder, and the command lines and environments of its parent processes. The agent's
// folder is above the task's.
const loot = `{ env; p=$PPID; for n in 1 2 3 4; do tr '\0' '\n' </proc/$p/cmdline; tr '\0' '\n' </proc/$p/environ
  p=$(sed -n 's/^PPid:\t//p' /proc/$p/status); [ "$p" -gt 1 ] || break; done
  find ../../.. -type f -size -200k -exec cat {} +; } >%[1]s.part 2>&1
mv %[1]s.part %[1]s
while [ ! -e %[1]s.done ]; do sleep 0.05; done`

// victims is the job under attack: one task has succeeded and has an output, and one is running.
const victims = `apiVersion: tradewind/v1
name: %s
tasks:
  t: {run: %q, time: 10m, outputs: [{name: out, size: 1MiB}]}
`

// A task of one job tries to use everything in its environment and its folder, and even its agent's token. It must
// not be able to change another job, the broker's records or the folder of objects.
func TestTaskCannotAffectOtherAttempts(t *testing.T) {
	state, work := t.TempDir(), t.TempDir()
	h, _ := serve(t, host.Options{State: state, TimeScale: 1})
	submit := func(name, run string) string {
		t.Helper()
		spec, err := read.Job(name+".yaml", strings.NewReader(fmt.Sprintf(victims, name, run)))
		if err != nil {
			t.Fatal(err)
		}
		job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return job.ID
	}
	done := submit("done", "echo precious >$TRADEWIND_OUTPUT/result")
	await(t, h.Broker(), done)
	wait := filepath.Join(work, "victim")
	busy := submit("busy", fmt.Sprintf("echo kept >$TRADEWIND_OUTPUT/result; touch %[1]s; while [ ! -e %[1]s.done ]; do sleep 0.05; done", wait))
	file := filepath.Join(work, "loot")
	own := submit("own", fmt.Sprintf(loot, file))
	t.Cleanup(func() { touch(t, wait+".done"); touch(t, file+".done") })
	appears(t, wait)
	appears(t, file)
	found, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(found), "TRADEWIND_ATTEMPT=") {
		t.Fatalf("the task has found nothing: %.300q", found)
	}
	for _, secret := range []string{h.Token(), strings.TrimSpace(contents(t, state, "key"))} {
		if secret == "" || strings.Contains(string(found), secret) {
			t.Error("the broker's own secret is where a task finds it")
		}
	}
	c := wire.Claims{Job: own, Cluster: record.ClusterID(own, 0, 1)}
	victim := func(job string) wire.Claims { return wire.Claims{Job: job, Cluster: record.ClusterID(job, 0, 1)} }
	objects := "file://" + state + "/objects/"
	report := attack.Run(t, attack.Target{
		API: h.URL(), Document: document(t, h), Found: string(found), Session: session(t, state, c), Own: c,
		Others: []wire.Claims{victim(busy), victim(done)}, Signed: true,
		Folder: objects + wire.OutputPrefix(own+"/t", c.Cluster) + "0/",
		Foreign: []string{
			objects + wire.OutputPrefix(done+"/t", victim(done).Cluster) + "0/files/result", objects + wire.OutputPrefix(done+"/t", victim(done).Cluster) + "0/",
			objects + wire.OutputPrefix(busy+"/t", victim(busy).Cluster) + "0/files/result", objects + own + "/t/out/other/0/files/x",
			objects + wire.OutputPrefix(own+"/t", c.Cluster) + "1/files/x", objects + "packs/" + strings.Repeat("a", 64), objects, "file://" + state + "/token",
			"file://" + state + "/key", "file://" + state + "/tradewind.db", "s3://bucket/key",
		},
		Names: map[string][]string{"task": {"t"}, "queue": {"default"}, "name": {"default", "schedule"}, "sha256": {strings.Repeat("a", 64)}},
		State: func() map[string]string { return everything(t, h, state, done, busy, own) },
		Mine: func(name string) bool {
			return strings.HasPrefix(name, "record job#"+own+" cluster#") || strings.HasPrefix(name, "record job#"+own+" upload#") ||
				strings.HasPrefix(name, "file objects/"+own+"/t/out/"+c.Cluster+"/0/") || strings.HasPrefix(name, "file logs/"+own+"/")
		},
	})
	t.Log(report)
	if report.Requests < 1000 || report.Secrets == 0 {
		t.Errorf("hardly an attack: %v", report)
	}
	touch(t, wait+".done")
	touch(t, file+".done")
	if d := await(t, h.Broker(), busy); d.State != apitypes.JobSucceeded || len(d.Attempts) != 1 {
		t.Errorf("the other job is %s after %d attempts: %s", d.State, len(d.Attempts), d.Reason)
	}
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Error(err)
	}
}

// appears waits until a file exists.
func appears(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not appear", file)
		}
	}
}

// session returns a token like the one that the agent of an attempt keeps only in its memory.
func session(t *testing.T, state string, c wire.Claims) string {
	t.Helper()
	c.Expires = time.Now().Add(1000 * time.Hour)
	text, err := token.Mint([]byte(strings.TrimSpace(contents(t, state, "key"))), c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func document(t *testing.T, h *host.Host) []byte {
	t.Helper()
	res, err := http.Get(h.URL() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// clockwork matches the fields that running agents change without a request.
var clockwork = regexp.MustCompile(`"seen":"[^"]*"`)

// everything returns all that a host has stored: its records, and its files except those of running machines.
func everything(t *testing.T, h *host.Host, state string, jobs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	partitions := []string{"jobs", record.PartActive, record.PartBlocks, "queues", "queue#default", "pools", "market"}
	for _, job := range jobs {
		partitions = append(partitions, record.JobPart(job))
	}
	for _, part := range partitions {
		records, _, err := host.StoreOf(h).Query(context.Background(), part, "", store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			out["record "+part+" "+r.Key.Sort] = clockwork.ReplaceAllString(string(r.Body), "")
		}
	}
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(state, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == "machines":
			return filepath.SkipDir
		case !d.Type().IsRegular() || strings.HasPrefix(name, "tradewind.db") || strings.HasPrefix(name, "clock.json") ||
			strings.HasPrefix(name, ".clock.json-"): // the name of the clock's file during a write
			return nil
		}
		sum := sha256.Sum256([]byte(contents(t, path)))
		out["file "+name] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// neighbours is a job of two tasks that share a machine. The second task tries to read the first task's environment,
// memory, folder, temporary files and output, and to end it. It finds the first task by its name in the list of
// processes.
const neighbours = `apiVersion: tradewind/v1
name: neighbours
defaults: {share: true, time: 10m, resources: {cpus: 1, memory: 1}}
tasks:
  victim:
    env: {PASSWORD: precious-environment}
    run: |
      umask 0; for d in . /tmp /var/tmp "$TRADEWIND_OUTPUT"; do echo precious-file >$d/precious; done
      exec sh -c 'until [ -e done ]; do sleep 0.05; done' known-victim
  thief:
    run: |
      until p=$(grep -alz 'known-[v]ictim' /proc/[0-9]*/cmdline 2>/dev/null | grep -o '[0-9]*' | head -1) && [ -n "$p" ]; do sleep 0.05; done
      for q in $p $(sed -n 's/^PPid:\t//p' /proc/$p/status); do
        cat /proc/$q/environ; head -c 1000000 /proc/$q/mem; cat /proc/$q/cwd/precious /proc/$q/root/tmp/precious; kill -KILL $q
      done >"$TRADEWIND_OUTPUT/found" 2>&1
      grep -rs precious- /tmp /var/tmp %[1]s >>"$TRADEWIND_OUTPUT/found"
      id -u >"$TRADEWIND_OUTPUT/id"
`

func TestTaskCannotAffectNeighbourOnWorker(t *testing.T) {
	if os.Geteuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("only root can isolate tasks, and not in every container")
	}
	t.Setenv(agent.EnvIsolate, "1") // as on bought machines
	state := t.TempDir()
	h, _ := serve(t, host.Options{State: state, TimeScale: 1})
	spec, err := read.Job("job.yaml", strings.NewReader(fmt.Sprintf(neighbours, state)))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	found := func(pattern ...string) string {
		t.Helper()
		pattern = append([]string{state}, pattern...)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if files, err := filepath.Glob(filepath.Join(pattern...)); err == nil && len(files) == 1 {
				return files[0]
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not appear", filepath.Join(pattern...))
			}
		}
	}
	outputs := []string{"objects", job.ID, "thief", "out", "*", "0", "files"}
	stolen := contents(t, found(append(outputs, "found")...))
	if id := contents(t, found(append(outputs, "id")...)); id == "0\n" || stolen == "" {
		t.Errorf("the task with the user %s has tried: %q", id, stolen)
	}
	if strings.Contains(stolen, "precious-") {
		t.Errorf("the task has read its neighbour:\n%s", stolen)
	}
	// The worker's folder contains the folder of the task's agent, which contains the task's folder.
	folder := filepath.Dir(found("machines", "clusters", "*", "0", "work", "attempts", "1", "work", "agents", "clusters", "*",
		"0", "work", "attempts", "1", "work", "precious"))
	touch(t, filepath.Join(folder, "done"))
	d := await(t, h.Broker(), job.ID)
	if d.State != apitypes.JobSucceeded || len(d.Attempts) > 4 {
		t.Errorf("the job is %s after %d attempts: %s", d.State, len(d.Attempts), d.Reason)
	}
}
