package local_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	switch {
	case os.Getenv(launcherEnv) != "":
		launcher()
	case os.Getenv(agent.EnvEndpoint) != "":
		os.Exit(agent.Main(os.Environ(), "test", nil))
	}
	os.Exit(m.Run())
}

var (
	noContext = context.Background()
	onDemand  = apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "m5.large", USDPerHour: 0.096}
	spot      = apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "m5.large", Spot: true, USDPerHour: 0.03}
)

// notices collects the notices of a host.
type notices chan cloud.Notice

func (n notices) next(t *testing.T) cloud.Notice {
	t.Helper()
	select {
	case got := <-n:
		return got
	case <-time.After(time.Minute):
		t.Fatal("no notice came")
		return cloud.Notice{}
	}
}

// world is a host, and the broker of its agents.
type world struct {
	t       *testing.T
	broker  *agenttest.Broker
	host    *local.Host
	cfg     local.Config
	aws     cloud.Cloud
	notices notices
}

// newWorld returns a host on a new directory. Machines that are left at the end are terminated.
func newWorld(t *testing.T, cfg local.Config) *world {
	t.Helper()
	w := &world{t: t, broker: agenttest.New(t), notices: make(notices, 100)}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Command = []string{os.Args[0], marker(cfg.Dir)}
	cfg.Environ = testEnviron()
	cfg.Notify = func(_ context.Context, n cloud.Notice) { w.notices <- n }
	w.cfg = cfg
	w.open()
	t.Cleanup(func() {
		w.terminateAll()
		w.host.Close()
	})
	return w
}

// testEnviron returns the environment of agents. They are this test's binary, which would wait for a second at its
// exit if it has the race detector.
func testEnviron() []string { return append(os.Environ(), "GORACE=atexit_sleep_ms=0") }

// open opens the host. It can be called again after Close.
func (w *world) open() {
	w.t.Helper()
	host, err := local.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.host, w.aws = host, host.Cloud("aws")
}

func (w *world) terminateAll() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	machines, err := w.aws.Machines(ctx, "")
	if err != nil {
		w.t.Error(err)
	}
	var wg sync.WaitGroup
	for _, m := range machines {
		if m.Rank == 0 {
			wg.Go(func() {
				if err := w.aws.Terminate(ctx, m.Cluster); err != nil {
					w.t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

func (w *world) spec(cluster string, offer apitypes.Offer, nodes int) cloud.LaunchSpec {
	return cloud.LaunchSpec{
		Cluster: cluster, Offer: offer, Nodes: nodes, Labels: map[string]string{"task": "train"},
		Bootstrap: cloud.Bootstrap{Endpoint: w.broker.URL(), Tokens: w.broker.Tokens(cluster, nodes)},
	}
}

func (w *world) launch(cluster string, offer apitypes.Offer, nodes int) []cloud.Machine {
	w.t.Helper()
	machines, err := w.aws.Launch(w.t.Context(), w.spec(cluster, offer, nodes))
	if err != nil {
		w.t.Fatal(err)
	}
	return machines
}

func (w *world) terminate(cluster string) {
	w.t.Helper()
	if err := w.aws.Terminate(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// machine returns the only machine of a cluster.
func (w *world) machine(cluster string) cloud.Machine {
	w.t.Helper()
	machines, err := w.aws.Machines(w.t.Context(), cluster)
	if err != nil || len(machines) != 1 {
		w.t.Fatalf("%d machines, %v", len(machines), err)
	}
	return machines[0]
}

// run makes a node run a script, and returns the script's processes. The script prints "pid" and a number for each of
// count processes, and then "ready".
func (w *world) run(n agenttest.Node, script string, count int) []proc.Identity {
	w.t.Helper()
	w.broker.Run(n, &wire.Assignment{
		Job: "job", Task: "train", Attempt: "a1", Run: script, Nodes: []string{"127.0.0.1"}, Store: "file://" + w.t.TempDir(), Prefix: "p",
	})
	w.broker.AwaitLog(n, "a1", "ready\n")
	for {
		var out []proc.Identity
		fields := strings.Fields(w.broker.Log(n, "a1"))
		for i, f := range fields {
			if f == "pid" && i+1 < len(fields) {
				out = append(out, identify(w.t, fields[i+1]))
			}
		}
		if len(out) == count {
			return out
		}
	}
}

func identify(t *testing.T, pid string) proc.Identity {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(n)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) mustBeGone(ids []proc.Identity) {
	w.t.Helper()
	for _, id := range ids {
		// The process that adopts an orphan reaps it a moment later.
		for deadline := time.Now().Add(time.Minute); id.Alive() && !zombie(id.PID); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				w.t.Errorf("process %d was left over", id.PID)
				break
			}
		}
	}
}

// zombie reports whether a process has ended but its parent has not reaped it.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && strings.HasPrefix(rest, "Z")
}

// marker returns an argument of a directory's agents by which their processes can be counted.
func marker(dir string) string { return "agent-of=" + dir }

// processes returns the number of running agents.
func (w *world) processes() int { return countProcesses(w.t, marker(w.cfg.Dir)) }

func countProcesses(t *testing.T, marker string) int {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		if strings.HasSuffix(strings.TrimSpace(line), marker) && !strings.HasPrefix(line, "Z") {
			n++
		}
	}
	return n
}

// reopen closes the host and opens it again, like another process.
func (w *world) reopen() {
	w.t.Helper()
	w.host.Close()
	w.open()
}

// waiters waits until n callers wait for the clock.
func (w *world) waiters(clk *clock.Manual, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := clk.Waiters(ctx, n); err != nil {
		w.t.Fatalf("too few callers wait for the clock: %v", err)
	}
}

// find returns the path of a file in the directory of the only machine of a cluster.
func (w *world) find(cluster, name string) string {
	w.t.Helper()
	return filepath.Join(w.cfg.Dir, "clusters", "aws-"+cluster, "0", name)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// agentOf returns the process of the only agent of a cluster.
func (w *world) agentOf(cluster string) proc.Identity {
	w.t.Helper()
	var id proc.Identity
	if err := json.Unmarshal([]byte(readFile(w.t, w.find(cluster, "identity"))), &id); err != nil {
		w.t.Fatal(err)
	}
	return id
}
