package local_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// harness is the local cloud for the conformance suite.
type harness struct {
	*world
	fail chan *cloud.Error
}

// failing makes launches fail with the errors that the test sends.
type failing struct {
	local.None
	next chan *cloud.Error
}

func (f failing) Launch(local.Request) local.Verdict {
	select {
	case err := <-f.next:
		return local.Verdict{Err: err}
	default:
		return local.Verdict{}
	}
}

func (h harness) Cloud() cloud.Cloud    { return h.aws }
func (h harness) Offer() apitypes.Offer { return onDemand }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return cloud.Bootstrap{Endpoint: h.broker.URL(), Tokens: h.broker.Tokens(cluster, nodes)}
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	h.fail <- err
	return true
}

func (h harness) Settle(context.Context) { time.Sleep(time.Millisecond) }

// Left returns the number of running agents.
func (h harness) Left(context.Context) (int, error) { return h.processes(), nil }

func (h harness) Close() {}

func TestConformance(t *testing.T) {
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		fail := make(chan *cloud.Error, 1)
		return harness{newWorld(t, local.Config{Behaviour: failing{next: fail}}), fail}, nil
	})
}

// lasting is a task that does not end. It prints its process ID and that of a process that it leaves behind.
const lasting = `(setsid sh -c 'echo pid $$; exec sleep 1000' &); echo pid $$; echo ready; while :; do sleep 1000; done`

func TestMachineLifecycle(t *testing.T) {
	w := newWorld(t, local.Config{})
	machines := w.launch("c1", onDemand, 1)
	n := agenttest.Node{Cluster: "c1"}
	hello := w.broker.Hello(n)
	if ip := net.ParseIP(hello.Address); ip == nil || !ip.IsLoopback() {
		t.Errorf("address %q", hello.Address)
	}
	tasks := w.run(n, lasting, 2)
	if m := w.machine("c1"); m.State != cloud.Running || m.ID != machines[0].ID || m.Offer != onDemand {
		t.Errorf("%+v", m)
	}
	w.terminate("c1")
	w.mustBeGone(tasks)
	if left, err := os.ReadDir(filepath.Join(w.cfg.Dir, "clusters")); err != nil || len(left) != 0 {
		t.Errorf("left on disk: %v, %v", left, err)
	}
}

func TestMachinesHaveSeparateAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only one loopback address here")
	}
	w := newWorld(t, local.Config{})
	w.launch("a", onDemand, 2)
	w.launch("b", onDemand, 1)
	seen := map[string]bool{}
	for _, n := range []agenttest.Node{{Cluster: "a"}, {Cluster: "a", Rank: 1}, {Cluster: "b"}} {
		seen[w.broker.Hello(n).Address] = true
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
	for address := range seen { // it must be possible to listen on each address
		l, err := net.Listen("tcp", address+":0")
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}

func TestCloudsOfOneHostAreSeparate(t *testing.T) {
	w := newWorld(t, local.Config{})
	gcp := w.host.Cloud("gcp")
	w.launch("c", onDemand, 1)
	spec := w.spec("c", onDemand, 1)
	spec.Offer.Cloud = "gcp"
	theirs, err := gcp.Launch(t.Context(), spec)
	if err != nil || theirs[0].ID == w.machine("c").ID || gcp.Name() != "gcp" {
		t.Fatalf("%v, %v", theirs, err)
	}
	w.terminate("c")
	if left, err := gcp.Machines(t.Context(), ""); err != nil || len(left) != 1 || left[0].State != cloud.Running {
		t.Errorf("%v, %v", left, err)
	}
	if err := gcp.Terminate(t.Context(), "c"); err != nil {
		t.Error(err)
	}
}

func TestMaxMachines(t *testing.T) {
	w := newWorld(t, local.Config{MaxMachines: 3})
	w.launch("a", onDemand, 2)
	_, err := w.aws.Launch(t.Context(), w.spec("b", onDemand, 2))
	var typed *cloud.Error
	if !errors.As(err, &typed) || typed.Kind != cloud.Quota || !strings.Contains(typed.Message, "local machines limit") {
		t.Errorf("%v", err)
	}
	w.launch("c", onDemand, 1)
	w.terminate("a")
	w.launch("b", onDemand, 2)
}

func TestSpotMachineIsInterrupted(t *testing.T) {
	start := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	clk := clock.NewManual(start)
	w := newWorld(t, local.Config{Clock: clk, Behaviour: takenAfter(time.Hour)})
	machine := w.launch("c1", spot, 1)[0]
	if !machine.Launched.Equal(start) {
		t.Errorf("launched at %v", machine.Launched)
	}
	n := agenttest.Node{Cluster: "c1"}
	tasks := w.run(n, lasting, 2)
	w.waiters(clk, 1)
	clk.Advance(58 * time.Minute)
	if got, want := w.notices.next(t), (cloud.Notice{Cluster: "c1", Machine: machine.ID, Kind: cloud.Interruption, At: start.Add(time.Hour)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if m := w.machine("c1"); m.State != cloud.Running {
		t.Errorf("after the notice: %+v", m)
	}
	w.waiters(clk, 1)
	clk.Advance(2 * time.Minute)
	if got, want := w.notices.next(t), (cloud.Notice{Cluster: "c1", Machine: machine.ID, Kind: cloud.Taken, At: start.Add(time.Hour)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.mustBeGone(tasks)
	if m := w.machine("c1"); m.State != cloud.Terminated || m.Reason != "spot-interruption" {
		t.Errorf("after the interruption: %+v", m)
	}
	w.terminate("c1")
	if left, _ := w.aws.Machines(t.Context(), "c1"); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// takenAfter is the time after which spot machines are interrupted.
type takenAfter time.Duration

func (takenAfter) Launch(local.Request) local.Verdict { return local.Verdict{} }
func (b takenAfter) Preemption(r local.Request, _ int) (local.Preemption, bool) {
	return local.Preemption{At: r.Now.Add(time.Duration(b)), Notice: local.DefaultNotice}, r.Offer.Spot
}

func TestTerminatedMachineIsNotInterrupted(t *testing.T) {
	clk := clock.NewManual(time.Now())
	w := newWorld(t, local.Config{Clock: clk, Behaviour: takenAfter(time.Hour)})
	w.launch("c1", spot, 1)
	w.launch("c2", spot, 1)
	w.waiters(clk, 2)
	w.terminate("c1")
	clk.Advance(time.Hour) // past the notice and the interruption at once: only the interruption is reported
	if got := w.notices.next(t); got.Cluster != "c2" || got.Kind != cloud.Taken {
		t.Errorf("%+v", got)
	}
}

func TestHostAdoptsMachines(t *testing.T) {
	clk := clock.NewManual(time.Now())
	w := newWorld(t, local.Config{Clock: clk, Behaviour: takenAfter(time.Hour)})
	machine := w.launch("c1", spot, 1)[0]
	w.launch("c2", onDemand, 1)
	n := agenttest.Node{Cluster: "c1"}
	tasks := w.run(n, lasting, 2)
	w.reopen()
	if m := w.machine("c1"); m.State != cloud.Running || m.ID != machine.ID || !m.Launched.Equal(machine.Launched) {
		t.Errorf("%+v, was %+v", m, machine)
	}
	if again := w.launch("c1", spot, 1); again[0].ID != machine.ID || w.processes() != 2 {
		t.Errorf("launched again: %+v, %d agents", again, w.processes())
	}
	for _, id := range tasks {
		if !id.Alive() {
			t.Error("the task did not survive the host's restart")
		}
	}
	w.waiters(clk, 1)
	clk.Advance(58 * time.Minute)
	if got := w.notices.next(t); got.Kind != cloud.Interruption || got.Machine != machine.ID {
		t.Errorf("%+v", got)
	}
	w.reopen()
	if got := w.notices.next(t); got.Kind != cloud.Interruption {
		t.Errorf("the notice, which may have been lost, is not repeated after a restart: %+v", got)
	}
	w.waiters(clk, 1)
	clk.Advance(2 * time.Minute)
	if got := w.notices.next(t); got.Kind != cloud.Taken {
		t.Errorf("after the restart: %+v", got)
	}
	w.mustBeGone(tasks)
	w.reopen()
	if got := w.notices.next(t); got.Kind != cloud.Taken {
		t.Errorf("after another restart: %+v", got)
	}
	if m := w.machine("c1"); m.State != cloud.Terminated || m.Reason != "spot-interruption" {
		t.Errorf("%+v", m)
	}
	w.terminate("c1")
	w.terminate("c2")
	if n := w.processes(); n != 0 {
		t.Errorf("%d agents left", n)
	}
	w.reopen()
	if _, err := w.aws.Launch(t.Context(), w.spec("c1", spot, 1)); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("launched after it was terminated by another host: %v", err)
	}
}

func TestDeadAgentIsDetected(t *testing.T) {
	for name, reopen := range map[string]bool{"of this host": false, "of an earlier host": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, local.Config{})
			machine := w.launch("c1", onDemand, 1)[0]
			n := agenttest.Node{Cluster: "c1"}
			tasks := w.run(n, lasting, 2)
			if reopen {
				w.reopen()
			}
			if err := w.agentOf("c1").Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if got := w.notices.next(t); got.Kind != cloud.Taken || got.Machine != machine.ID {
				t.Errorf("%+v", got)
			}
			w.mustBeGone(tasks)
			if m := w.machine("c1"); m.State != cloud.Terminated || !strings.HasPrefix(m.Reason, "exited") {
				t.Errorf("%+v", m)
			}
			if again := w.launch("c1", onDemand, 1); again[0].State != cloud.Terminated {
				t.Errorf("an ended machine was started again: %+v", again)
			}
		})
	}
}

func TestOrphansOfKilledSupervisorAreSwept(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the environment of other processes cannot be read here")
	}
	w := newWorld(t, local.Config{})
	w.launch("c1", onDemand, 1)
	n := agenttest.Node{Cluster: "c1"}
	tasks := w.run(n, `echo pid $PPID; `+lasting, 3)
	supervisor, agentID := tasks[0], w.agentOf("c1")
	for _, id := range []proc.Identity{agentID, supervisor} { // at once, so that neither detects the end of the other
		if err := id.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []proc.Identity{agentID, supervisor} {
		if err := id.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	w.notices.next(t)
	w.terminate("c1")
	w.mustBeGone(tasks)
}

func TestTokenIsNotVisible(t *testing.T) {
	w := newWorld(t, local.Config{})
	spec := w.spec("c1", onDemand, 1)
	if _, err := w.aws.Launch(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	w.broker.Hello(agenttest.Node{Cluster: "c1"})
	secret := spec.Bootstrap.Tokens[0]
	pid := strconv.Itoa(w.agentOf("c1").PID)
	for _, file := range []string{"cmdline", "environ"} {
		if b, err := os.ReadFile(filepath.Join("/proc", pid, file)); err == nil && strings.Contains(string(b), secret) {
			t.Errorf("the token is in /proc/PID/%s", file)
		}
	}
	err := filepath.WalkDir(w.cfg.Dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), secret) {
			t.Errorf("the token is in %s", p)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	w := newWorld(t, local.Config{})
	w.cfg.Command = []string{"/no/such/agent"}
	w.reopen()
	_, err := w.aws.Launch(t.Context(), w.spec("c1", onDemand, 2))
	if cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "/no/such/agent") {
		t.Errorf("%v", err)
	}
	if left, err := w.aws.Machines(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(w.cfg.Dir, "clusters")); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestReusedProcessIDIsNotKilled(t *testing.T) {
	w := newWorld(t, local.Config{})
	w.launch("c1", onDemand, 1)
	w.broker.Hello(agenttest.Node{Cluster: "c1"})
	id := w.agentOf("c1")
	w.host.Close()
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for id.Alive() && !zombie(id.PID) {
		time.Sleep(time.Millisecond)
	}
	// the recorded ID of the agent's process is now that of this test's process
	other, err := proc.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	identity := w.find("c1", "identity")
	b := strings.Replace(readFile(t, identity), strconv.Itoa(id.PID), strconv.Itoa(other.PID), 1)
	if err := os.WriteFile(identity, []byte(b), 0o600); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.terminate("c1") // must not kill this test's process
}

func TestUnreadableRecord(t *testing.T) {
	w := newWorld(t, local.Config{})
	w.launch("c1", onDemand, 1)
	w.broker.Hello(agenttest.Node{Cluster: "c1"})
	w.host.Close()
	record := w.find("c1", "../cluster.json")
	good := readFile(t, record)
	spoil := func(content string) {
		if err := os.WriteFile(record, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("{")
	if _, err := local.New(w.cfg); err == nil || !strings.Contains(err.Error(), "cluster.json") {
		t.Errorf("no error although its machine runs: %v", err)
	}
	spoil(good)
	w.open()
	w.terminate("c1")
	w.host.Close()
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		t.Fatal(err)
	}
	spoil("")
	w.open()
	if left, err := w.aws.Machines(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestDirectoryAllowsOneHost(t *testing.T) {
	w := newWorld(t, local.Config{})
	if _, err := local.New(w.cfg); !errors.Is(err, local.ErrInUse) {
		t.Errorf("a second host: %v", err)
	}
	if _, err := local.New(local.Config{}); err == nil {
		t.Error("opened a host without a directory")
	}
}

// verdict gives every launch the same verdict.
type verdict struct {
	local.None
	local.Verdict
}

func (v verdict) Launch(local.Request) local.Verdict { return v.Verdict }

func TestUnseenLaunchIsFoundByRetry(t *testing.T) {
	w := newWorld(t, local.Config{Behaviour: verdict{Verdict: local.Verdict{Unseen: true}}})
	_, err := w.aws.Launch(t.Context(), w.spec("c1", onDemand, 1))
	if cloud.KindOf(err) != cloud.Transient || err == nil {
		t.Fatalf("%v", err)
	}
	seen := w.machine("c1")
	if again := w.launch("c1", onDemand, 1); again[0].ID != seen.ID || w.processes() != 1 {
		t.Errorf("%+v, first %+v, %d agents", again, seen, w.processes())
	}
}

func TestHangingLaunchEndsWithContext(t *testing.T) {
	w := newWorld(t, local.Config{Behaviour: verdict{Verdict: local.Verdict{Hang: true}}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := w.aws.Launch(ctx, w.spec("c1", onDemand, 1))
	if cloud.KindOf(err) != cloud.Transient || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if left, err := w.aws.Machines(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestTerminateDuringDelayedLaunch(t *testing.T) {
	clk := clock.NewManual(time.Now())
	w := newWorld(t, local.Config{Clock: clk, Behaviour: verdict{Verdict: local.Verdict{Delay: time.Minute}}})
	done := make(chan error, 1)
	go func() {
		_, err := w.aws.Launch(t.Context(), w.spec("c1", onDemand, 1))
		done <- err
	}()
	w.waiters(clk, 1)
	if left, err := w.aws.Machines(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("before the delay has passed: %v, %v", left, err)
	}
	// The cluster is terminated during the delay, so it must not start.
	w.terminate("c1")
	clk.Advance(time.Minute)
	if err := <-done; cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("%v", err)
	}
}
