package pool_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

func TestMachineRunsExactlyTheOrderedAgents(t *testing.T) {
	o := newOwner(t)
	_, stop := o.here(config(o.server.URL, t.TempDir()))
	o.order("a", "b")
	o.agents.Hello(node("a"))
	o.agents.Hello(node("b"))
	o.running("a", "b")
	o.order("b", "c")
	o.agents.Hello(node("c"))
	o.running("b", "c")
	o.order("a", "b", "c") // this order is late or repeated: an ended agent must not start again
	o.running("b", "c")
	o.order()
	o.running()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestTasksSeeOwnDevices(t *testing.T) {
	o := newOwner(t)
	o.here(config(o.server.URL, t.TempDir()))
	o.order("a", "b")
	for cluster, want := range map[string]string{"a": "0,2", "b": "1,3"} {
		o.agents.Hello(node(cluster))
		o.task(cluster, `echo "devices $CUDA_VISIBLE_DEVICES, state [$TRADEWIND_STATE]"; pwd`)
		o.agents.Result(node(cluster), "a1")
		if log := o.agents.Log(node(cluster), "a1"); !strings.Contains(log, "devices "+want+", state []") {
			t.Errorf("%s: %q", cluster, log)
		}
	}
	if a, b := o.agents.Log(node("a"), "a1"), o.agents.Log(node("b"), "a1"); strings.SplitAfter(a, "\n")[1] == strings.SplitAfter(b, "\n")[1] {
		t.Errorf("both tasks work in %s", a)
	}
}

func TestRestartedMachineFindsItsAgents(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	first := o.process(dir)
	o.order("a", "b")
	o.agents.Hello(node("a"))
	o.agents.Hello(node("b"))
	o.task("a", `echo $$; while [ ! -e go ]; do sleep 0.01; done; echo gone on`)
	o.agents.AwaitLog(node("a"), "a1", "\n")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	o.order("a") // the order of b is withdrawn
	joins := o.count("join")
	second := o.process(dir)
	o.running("a")
	if o.count("join") != joins {
		t.Error("it joined again although it has a token")
	}
	o.agents.SendCommand(node("a"), wire.Work{Command: wire.Stop})
	o.agents.Result(node("a"), "a1")
	if ended := o.await("the end of a", func(r wire.PoolReport) bool { return len(r.Ended) == 1 }); ended.Ended[0].Cluster != "a" || len(ended.Running) > 0 {
		t.Errorf("%+v", ended)
	}
	if err := second.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	o.await("that it leaves", func(r wire.PoolReport) bool { return r.Leaving })
	o.order()
	if err := second.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
}

func (o *owner) count(kind string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[kind]
}

func TestOpenRejectsFolderInUse(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	o.here(config(o.server.URL, dir))
	if _, err := pool.Open(config(o.server.URL, dir)); !errors.Is(err, pool.ErrInUse) {
		t.Errorf("a second process: %v", err)
	}
}

func TestEndedAgentIsReportedUntilNoLongerOrdered(t *testing.T) {
	o := newOwner(t)
	cfg := config(o.server.URL, t.TempDir())
	cfg.Command = []string{"/bin/sh", "-c", "echo no disk is left >&2; exit 3"}
	o.here(cfg)
	o.order("a")
	r := o.await("its end", func(r wire.PoolReport) bool { return len(r.Ended) == 1 })
	if e := r.Ended[0]; e.Cluster != "a" || !strings.Contains(e.Reason, "exit code 3") || !strings.Contains(e.Reason, "no disk is left") {
		t.Errorf("%+v", e)
	}
	o.order()
	o.await("that it is forgotten", func(r wire.PoolReport) bool { return len(r.Ended)+len(r.Running) == 0 })

	o = newOwner(t)
	cfg = config(o.server.URL, t.TempDir())
	cfg.Command = []string{filepath.Join(t.TempDir(), "no-such-program")}
	o.here(cfg)
	o.order("a")
	if r := o.await("its failure", func(r wire.PoolReport) bool { return len(r.Ended) == 1 }); !strings.Contains(r.Ended[0].Reason, "no-such-program") {
		t.Errorf("%+v", r)
	}
}

func TestGatheredEndsAreReportedTogether(t *testing.T) {
	o := newOwner(t)
	o.gather = time.Second
	cfg := config(o.server.URL, t.TempDir())
	cfg.Command = []string{"/bin/sh", "-c", "exit 3"}
	o.order("a", "b")
	o.here(cfg)
	o.await("both ends", func(r wire.PoolReport) bool { return len(r.Ended) == 2 })
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.reports) != 2 {
		t.Errorf("%d syncs: %+v", len(o.reports), o.reports)
	}
}

// The machine reports that an agent has ended, and the answer has an order for its successor. The successor must
// start with that answer, without another sync.
func TestGatheringMachineStartsSuccessorWithoutAnotherSync(t *testing.T) {
	o := newOwner(t)
	o.gather = 300 * time.Millisecond
	cfg := config(o.server.URL, t.TempDir())
	cfg.Command = []string{"/bin/sh", "-c", "exit 3"}
	o.order("a")
	o.here(cfg)
	o.await("that it runs", func(wire.PoolReport) bool { return true })
	o.order("b")
	o.await("the end of the successor", func(r wire.PoolReport) bool {
		return len(r.Ended) == 1 && r.Ended[0].Cluster == "b"
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.reports) != 3 {
		t.Errorf("%d syncs: %+v", len(o.reports), o.reports)
	}
}

// An agent that ended by itself holds nothing. Its successor must start before the agent's remains are removed.
func TestSuccessorOfEndedAgentStartsWithoutAnotherSync(t *testing.T) {
	o := newOwner(t)
	started := filepath.Join(t.TempDir(), "started")
	cfg := config(o.server.URL, t.TempDir())
	cfg.Command = []string{"/bin/sh", "-c", "echo started >>" + started + "; exit 3"}
	o.update(func() {
		o.refuse = func(string, int) int {
			o.mu.Lock()
			defer o.mu.Unlock()
			if n := len(o.reports); n > 0 && len(o.reports[n-1].Ended) > 0 {
				return http.StatusInternalServerError // all other syncs fail
			}
			return 0
		}
	})
	defer o.update(func() { o.refuse = nil }) // so that the machine can leave
	o.order("a")
	o.here(cfg)
	o.await("that it runs", func(wire.PoolReport) bool { return true })
	o.order("b")
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if lines, _ := os.ReadFile(started); strings.Count(string(lines), "\n") == 2 {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the successor did not start")
		}
	}
}

func TestLeavingMachineWaitsForLastOrder(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	m := o.process(dir)
	o.order("a")
	o.agents.Hello(node("a"))
	o.task("a", `echo begun; trap "echo saved; exit" TERM; while :; do sleep 0.01; done`)
	o.agents.AwaitLog(node("a"), "a1", "begun")
	if err := m.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the machine stays until the agent has ended
		o.update(func() { o.reports = nil })
		o.await("that it leaves", func(r wire.PoolReport) bool { return r.Leaving && len(r.Running) == 1 })
	}
	o.agents.SendCommand(node("a"), wire.Work{Command: wire.SaveAndStop, Notice: patience})
	o.agents.AwaitLog(node("a"), "a1", "saved")
	o.agents.Report(node("a"), "a1", wire.Stopped, wire.Succeeded)
	o.order()
	if err := m.Wait(); err != nil {
		t.Errorf("it left with %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "agents", "clusters", "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestSecondInterruptKillsAgents(t *testing.T) {
	o := newOwner(t)
	cfg := config(o.server.URL, t.TempDir())
	cfg.Grace = 100 * time.Millisecond
	m, stop := o.here(cfg)
	o.order("a")
	o.agents.Hello(node("a"))
	o.task("a", `trap "" TERM; echo $$; while :; do sleep 0.01; done`)
	o.agents.AwaitLog(node("a"), "a1", "\n")
	if err := m.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.running()
	o.order()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestNewestTokenIsStored(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	o.update(func() { o.renew = true })
	_, stop := o.here(config(o.server.URL, dir))
	for range 3 {
		o.update(func() { o.reports = nil })
		o.await("a sync", func(wire.PoolReport) bool { return true })
	}
	// if an answer with a new token were lost, the machine would have no valid token
	o.update(func() { o.renew, o.reports = false, nil })
	o.await("a sync", func(wire.PoolReport) bool { return true })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "joined.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	cfg := config(o.server.URL, dir)
	cfg.JoinToken = nil // the machine has its own token by now
	_, stop = o.here(cfg)
	o.update(func() { o.reports = nil })
	o.await("a sync of the next process", func(wire.PoolReport) bool { return true })
	if err := stop(); err != nil || o.count("join") != 1 {
		t.Errorf("%v, %d joins", err, o.count("join"))
	}
}

func TestOrderWithoutTokenIsNotStarted(t *testing.T) {
	o := newOwner(t)
	o.here(config(o.server.URL, t.TempDir()))
	o.update(func() { o.blank = true }) // the broker believes that the agent still runs, as at the last sync
	o.order("a")
	for range 3 {
		o.update(func() { o.reports = nil })
		o.running()
	}
	o.update(func() { o.blank = false })
	o.agents.Hello(node("a"))
	o.running("a")
}

func TestFinalErrorEndsMachine(t *testing.T) {
	for status, want := range map[int]error{
		http.StatusUnauthorized: pool.ErrRefused, http.StatusForbidden: pool.ErrRefused, http.StatusGone: pool.ErrRemoved, http.StatusNotFound: pool.ErrRemoved,
		http.StatusConflict: pool.ErrTaken, http.StatusUnprocessableEntity: pool.ErrReport,
	} {
		for _, kind := range []string{"join", "sync"} {
			o := newOwner(t)
			o.update(func() {
				o.refuse = func(k string, _ int) int {
					if k == kind {
						return status
					}
					return 0
				}
			})
			m, err := pool.Open(config(o.server.URL, t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(m.Run(t.Context()), m.Close()); !errors.Is(err, want) {
				t.Errorf("%d to a %s: %v, want %v", status, kind, err, want)
			}
		}
	}
}

func TestRemovedMachineEndsAgentsAndForgetsToken(t *testing.T) {
	o := newOwner(t)
	dir := t.TempDir()
	m := o.process(dir)
	o.order("a")
	o.agents.Hello(node("a"))
	o.update(func() { o.refuse = func(string, int) int { return http.StatusGone } })
	if err := m.Wait(); err == nil {
		t.Error("Run returned no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "joined.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it was: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "agents", "clusters", "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestExpiredTokenIsReplacedByJoiningAgain(t *testing.T) {
	o := newOwner(t)
	o.here(config(o.server.URL, t.TempDir()))
	o.order("a")
	o.agents.Hello(node("a"))
	refusals := 0
	o.update(func() {
		o.refuse = func(kind string, _ int) int {
			if kind == "sync" && refusals == 0 {
				refusals++
				return http.StatusUnauthorized
			}
			return 0
		}
	})
	o.await("a sync after it", func(wire.PoolReport) bool { return o.count("join") == 2 })
	o.running("a")
}

func TestAgentsContinueWhileBrokerIsUnreachable(t *testing.T) {
	o := newOwner(t)
	cfg := config(o.server.URL, t.TempDir())
	var mu sync.Mutex
	var told []pool.EventKind
	back := make(chan struct{})
	cfg.OnEvent = func(e pool.Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, e.Kind)
		if e.Kind == pool.Reached {
			close(back)
		}
	}
	o.here(cfg)
	o.order("a")
	o.agents.Hello(node("a"))
	o.running("a")
	calls := 0
	away := make(chan struct{})
	o.update(func() {
		o.refuse = func(string, int) int {
			if calls++; calls == 5 {
				close(away)
			}
			if calls <= 5 {
				return http.StatusInternalServerError
			}
			return 0
		}
	})
	<-away
	<-back
	o.running("a")
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, k := range told {
		if k == pool.Unreachable {
			n++
		}
	}
	if n != 1 {
		t.Errorf("told %d times that the broker is unreachable: %v", n, told)
	}
}

func TestIncompleteConfigurationIsRejected(t *testing.T) {
	for _, spoil := range []func(*pool.Config){
		func(c *pool.Config) { c.Endpoint = "" }, func(c *pool.Config) { c.Pool = "" }, func(c *pool.Config) { c.Name = "" }, func(c *pool.Config) { c.Dir = "" },
	} {
		cfg := config("http://127.0.0.1:1", t.TempDir())
		spoil(&cfg)
		if _, err := pool.Open(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	cfg := config("http://127.0.0.1:1", t.TempDir())
	cfg.JoinToken = nil
	m, err := pool.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Run(context.Background()), m.Close()); !errors.Is(err, pool.ErrRefused) {
		t.Errorf("without a join token: %v", err)
	}
}
