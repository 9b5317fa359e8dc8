package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// forever is a task that prints the IDs of its processes and does not end by itself. It has one child in its process
// group and one outside of it.
const forever = `echo pid $$; sleep 1000 & (setsid sh -c 'echo pid $$; exec sleep 1000' &); echo ready; while :; do sleep 1000; done`

// processes returns the processes whose IDs a task has printed.
func processes(t *testing.T, b *agenttest.Broker, n agenttest.Node, attempt string, count int) []proc.Identity {
	t.Helper()
	var out []proc.Identity
	b.AwaitLog(n, attempt, "ready\n")
	for len(out) < count {
		out = nil
		fields := strings.Fields(b.Log(n, attempt))
		for i, f := range fields {
			if f != "pid" || i+1 >= len(fields) {
				continue
			}
			pid, err := strconv.Atoi(fields[i+1])
			if err != nil {
				t.Fatal(err)
			}
			id, err := proc.Identify(pid)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, id)
		}
	}
	return out
}

func mustBeGone(t *testing.T, ids []proc.Identity) {
	t.Helper()
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("process %d still runs", id.PID)
		}
	}
}

func TestStopEndsTaskAndAgent(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
	b.Run(node, task(t, "a1", `trap "" TERM; `+forever))
	ids := processes(t, b, node, "a1", 2)
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	mustBeGone(t, ids)
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
}

func TestStoppedTaskMayEndByItself(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Grace: time.Minute})
	b.Run(node, task(t, "a1", `trap 'echo farewell; exit 0' TERM; echo ready; while :; do sleep 0.01; done`))
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	if r := b.Result(node, "a1"); r.Event != wire.Stopped { // whatever the exit code: the task did not complete
		t.Errorf("%+v", r)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "farewell") {
		t.Errorf("log %q", log)
	}
}

func TestCancelledAgentStopsTaskAndReports(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
	b.Run(node, task(t, "a1", forever))
	ids := processes(t, b, node, "a1", 2)
	a.cancel()
	if err := a.wait(); !errors.Is(err, context.Canceled) || agent.ExitCode(err) != agent.ExitStopped {
		t.Errorf("%v", err)
	}
	mustBeGone(t, ids)
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
}

func TestFinishedAttemptEndsAgent(t *testing.T) {
	const ticking = `echo pid $$; (setsid sh -c 'echo pid $$; exec sleep 1000' &); echo ready; while :; do echo tick; sleep 0.01; done`
	for _, path := range []string{wire.PathReport, wire.PathLogs, wire.PathWork} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b := agenttest.New(t)
			a := start(t, b, node, agent.Config{Grace: 50 * time.Millisecond, Heartbeat: 10 * time.Millisecond, PollWait: 10 * time.Millisecond})
			b.Run(node, task(t, "a1", ticking))
			ids := processes(t, b, node, "a1", 2)
			b.Refuse(func(p string) int {
				if p == path {
					return 410
				}
				return 0
			})
			if err := a.wait(); !errors.Is(err, agent.ErrFinished) || agent.ExitCode(err) != agent.ExitFinished {
				t.Errorf("%v", err)
			}
			mustBeGone(t, ids)
			if got := b.Events(node, "a1"); slices.Contains(got, wire.Stopped) {
				t.Errorf("it reported to a broker that does not want reports: %v", got)
			}
		})
	}
}

func TestTaskContinuesWhileBrokerIsUnreachable(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	dir := t.TempDir()
	b.Run(node, task(t, "a1", `echo before; until [ -e `+dir+`/away ]; do sleep 0.01; done; echo meanwhile; touch `+dir+`/done; echo made > $TRADEWIND_OUTPUT/f`))
	b.AwaitLog(node, "a1", "before")
	b.Stop()
	touch(t, dir, "away")
	awaitFile(t, dir, "done")
	b.ForgetLog(node, "a1", 3) // the broker died before the end of the log was on its disk
	b.Start()
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	if got, want := b.Log(node, "a1"), "before\nmeanwhile\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if got := b.Events(node, "a1"); !slices.Equal(got, []wire.Event{wire.Started, wire.Succeeded}) {
		t.Errorf("events %v", got)
	}
}

func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitFile polls for a file that a task writes.
func awaitFile(t *testing.T, dir, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", name)
		}
	}
}

func TestPatienceEndsIfBrokerStaysUnreachable(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Patience: 300 * time.Millisecond, Grace: 50 * time.Millisecond})
	b.Run(node, task(t, "a1", forever))
	ids := processes(t, b, node, "a1", 2)
	b.Stop()
	if err := a.wait(); !errors.Is(err, agent.ErrUnreachable) || agent.ExitCode(err) != agent.ExitUnreachable {
		t.Errorf("%v", err)
	}
	mustBeGone(t, ids)
	b.Start()
}

func TestServerErrorsAreRetried(t *testing.T) {
	b := agenttest.New(t)
	var n atomic.Int64
	b.Refuse(func(string) int { // every call fails twice, with each kind of error that is retried
		return []int{500, 429, 0}[n.Add(1)%3]
	})
	start(t, b, node, agent.Config{})
	b.Run(node, task(t, "a1", "echo hello"))
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	if got := b.Log(node, "a1"); got != "hello\n" {
		t.Errorf("log %q", got)
	}
}

func TestNodeRunsAttemptsInSequence(t *testing.T) {
	b := agenttest.New(t)
	a := start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
	first := task(t, "a1", forever)
	b.Run(node, first)
	ids := processes(t, b, node, "a1", 2)
	b.Run(node, first) // the same assignment again
	b.Run(node, task(t, "a2", "ls; echo second"))
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	mustBeGone(t, ids)
	if got := b.Log(node, "a2"); got != "second\n" {
		t.Errorf("log of the second: %q", got)
	}
	if got := b.Events(node, "a1"); !slices.Equal(got, []wire.Event{wire.Started, wire.Stopped}) {
		t.Errorf("events of the first: %v", got)
	}
	b.SendCommand(node, wire.Work{Command: wire.Disconnect})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
}

func TestHeartbeatsDuringLongTask(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Heartbeat: time.Millisecond})
	b.Run(node, task(t, "a1", forever))
	b.ReportAfter(2, node, "a1", wire.Alive)
}

// program runs the agent as a separate process, with the test binary as its program.
func program(t *testing.T, b *agenttest.Broker, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), agent.EnvEndpoint+"="+b.URL(), agent.EnvTokenFile+"=-", agent.EnvDir+"="+dir,
		"AWS_SECRET_ACCESS_KEY=agents-own", "GORACE=atexit_sleep_ms=0", proc.MachineEnv+"=m-"+strconv.Itoa(os.Getpid()))
	cmd.Stdin = strings.NewReader(b.Token(node))
	cmd.Stderr = os.Stderr
	return cmd
}

func TestTaskDiesWithKilledAgent(t *testing.T) {
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.Run(node, task(t, "a1", `trap "" TERM HUP; `+forever))
	ids := processes(t, b, node, "a1", 2)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(ids, proc.Identity.Alive) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	mustBeGone(t, ids)
}

func TestMainStopsOnSIGTERM(t *testing.T) {
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.Run(node, task(t, "a1", forever))
	ids := processes(t, b, node, "a1", 2)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != agent.ExitStopped {
		t.Errorf("exit code %d", code)
	}
	mustBeGone(t, ids)
}

func TestTokenNeverReachesTask(t *testing.T) {
	b := agenttest.New(t)
	cmd := program(t, b, t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	b.Run(node, task(t, "a1", `env; ls -R $TRADEWIND_INPUTS/../..; cat /proc/$PPID/environ /proc/$PPID/cmdline; cat $(find .. -type f); ps -ef; echo ready`))
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	log := b.Log(node, "a1")
	if secret := b.Token(node); strings.Contains(log, secret) || strings.Contains(log, secret[strings.LastIndex(secret, ".")+1:]) {
		t.Error("the task can read the token")
	}
	if strings.Contains(log, "agents-own") {
		t.Error("the task can read the agent's credentials")
	}
}

func TestTokenFileIsRemoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(t.TempDir(), "identity")
	cfg, err := agent.FromEnvironment([]string{
		agent.EnvTokenFile + "=" + file, agent.EnvEndpoint + "=http://x", agent.EnvIdentity + "=" + identity,
	}, nil)
	if err != nil || cfg.Token != "abc" || cfg.Endpoint != "http://x" || cfg.Dir != "." {
		t.Errorf("%+v, %v", cfg, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file still exists: %v", err)
	}
	if _, err := os.Stat(identity); err != nil {
		t.Error(err)
	}
}

func TestBadConfigurationIsRejected(t *testing.T) {
	for name, environ := range map[string][]string{
		"no token file":        {},
		"missing token file":   {agent.EnvTokenFile + "=/no/such/file"},
		"empty standard input": {agent.EnvTokenFile + "=-"},
		"bad descriptor":       {agent.EnvTokenFile + "=-", agent.EnvHold + "=1"},
	} {
		in := io.Reader(bytes.NewReader(nil))
		if _, err := agent.FromEnvironment(environ, in); !errors.Is(err, agent.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cfg := range map[string]agent.Config{
		"nothing": {}, "no token": {Endpoint: "http://x", Dir: "x"}, "no token at all": {Endpoint: "http://x", Dir: "x", Token: "abc"},
		"no endpoint": {Token: "x", Dir: "x"}, "no directory": {Endpoint: "x", Token: "x"},
	} {
		if err := agent.Run(t.Context(), cfg); !errors.Is(err, agent.ErrConfig) || agent.ExitCode(err) != agent.ExitFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeoutEndsAttempt(t *testing.T) {
	for _, c := range []struct{ name, setup, run string }{
		{"in run", "", `trap "" TERM; ` + forever},
		{"in setup", forever, "exit 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := agenttest.New(t)
			a := start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
			work := task(t, "a1", c.run)
			work.Setup, work.Timeout = c.setup, 2*time.Second
			b.Run(node, work)
			ids := processes(t, b, node, "a1", 2)
			r := b.Result(node, "a1")
			if r.Event != wire.Failed || r.Phase != wire.PhaseTimeout {
				t.Errorf("%+v", r)
			}
			if log := b.Log(node, "a1"); !strings.Contains(log, "the timeout of the task has passed") {
				t.Errorf("log %q", log)
			}
			mustBeGone(t, ids)
			b.SendCommand(node, wire.Work{Command: wire.Stop})
			if err := a.wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTaskWithinTimeoutSucceeds(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	work := task(t, "a1", "echo done")
	work.Timeout = time.Hour
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
}

// A worker learns that it has room when the agent of a task ends. So this agent must end with its attempt, without
// waiting for its next poll.
func TestAgentOfWorkerEndsWithItsAttempt(t *testing.T) {
	b := agenttest.New(t)
	r := start(t, b, node, agent.Config{Once: true})
	b.Run(node, task(t, "a1", "exit 3"))
	if err := r.wait(); !errors.Is(err, agent.ErrFinished) {
		t.Errorf("it ended with %v", err)
	}
	if got := b.Result(node, "a1"); got.Event != wire.Failed || got.ExitCode != 3 {
		t.Errorf("%+v", got)
	}
}
