package proc_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// ownerEnv makes the test binary an owner process: it starts the script in this variable and waits.
const ownerEnv = "TRADEWIND_TEST_OWNER"

func TestMain(m *testing.M) {
	proc.Reexec()
	if script := os.Getenv(ownerEnv); script != "" {
		hold := os.NewFile(3, "hold")
		t, err := proc.Start(proc.Spec{Argv: shell(script), Output: os.Stdout, Hold: hold})
		if err != nil {
			os.Exit(1)
		}
		_, _ = t.Wait()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// running is a process tree whose output is a pipe. The pipe ends when no process holds it open any more, which shows
// without timeouts that all processes have ended.
type running struct {
	*proc.Tree
	out *bufio.Reader
}

// Wait returns the exit without the peak memory, which no test can predict.
func (r running) Wait() (proc.Exit, error) {
	exit, err := r.Tree.Wait()
	exit.PeakBytes = 0
	return exit, err
}

func TestPeakIsThatOfLargestProcess(t *testing.T) {
	r := start(t, proc.Spec{}, `(head -c 50000000 /dev/zero | tail | wc -c) & wait`)
	exit, err := r.Tree.Wait()
	if err != nil || exit.PeakBytes < 50_000_000 || exit.PeakBytes > 500_000_000 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func start(t *testing.T, s proc.Spec, script string) running {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	s.Argv, s.Output = shell(script), w
	tree, err := proc.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return running{tree, bufio.NewReader(r)}
}

func (r running) line(t *testing.T) string {
	t.Helper()
	s, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

func (r running) rest(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(r.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An orphan leaves the task's process group and session, as daemons do.
const orphan = `(setsid sh -c 'trap "" TERM HUP INT; echo orphan $$; while :; do sleep 1000; done' </dev/null &) ; `

func TestTaskExitCodeOutputAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	r := start(t, proc.Spec{Dir: dir, Env: []string{"A=1"}}, `echo out; echo err >&2; pwd; env | grep ^A=; env | grep -c TRADEWIND; cat; exit 7`)
	exit, err := r.Wait()
	if err != nil || exit != (proc.Exit{Code: 7}) {
		t.Errorf("exit %+v, %v", exit, err)
	}
	real, _ := filepath.EvalSymlinks(dir)
	if got, want := r.rest(t), "out\nerr\n"+real+"\nA=1\n0\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func TestStartReportsWhyCommandCannotStart(t *testing.T) {
	_, err := proc.Start(proc.Spec{Argv: []string{"/no/such/program"}, Output: os.Stderr})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Start: %v", err)
	}
}

func TestRemainingProcessesEndWithTask(t *testing.T) {
	r := start(t, proc.Spec{Linger: time.Millisecond}, orphan+`read x; (trap "" TERM; sleep 1000) & echo left; exit 3`)
	exit, err := r.Wait()
	if err != nil || exit.Code != 3 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	r.rest(t) // ends only when no process holds the pipe
}

func TestTerminateLetsTaskFinishWithinGrace(t *testing.T) {
	r := start(t, proc.Spec{}, `trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	r.line(t)
	r.Terminate(time.Minute)
	exit, err := r.Wait()
	if got := r.rest(t); err != nil || exit != (proc.Exit{Terminated: true}) || !strings.HasSuffix(got, "saved\n") {
		t.Errorf("exit %+v, %v, output %q", exit, err, got)
	}
}

func TestTerminateReachesChildrenOfShell(t *testing.T) {
	// The signal kills the shell at once. Its child saves its work, and must get the time for that.
	r := start(t, proc.Spec{Linger: time.Minute}, `sh -c 'trap "echo saved; exit 0" TERM; echo ready; while :; do sleep 0.01; done'; echo not reached`)
	r.line(t)
	r.Terminate(time.Minute)
	if _, err := r.Wait(); err != nil {
		t.Error(err)
	}
	if got := r.rest(t); !strings.Contains(got, "saved\n") {
		t.Errorf("output %q", got)
	}
}

func TestTerminateKillsAfterGrace(t *testing.T) {
	r := start(t, proc.Spec{}, orphan+`trap "" TERM; echo ready; while :; do sleep 1000; done`)
	r.line(t)
	r.line(t)
	r.Terminate(time.Hour)
	r.Terminate(time.Millisecond) // shortens the first grace period
	exit, err := r.Wait()
	if err != nil || exit != (proc.Exit{Code: 137, Signal: syscall.SIGKILL, Terminated: true}) {
		t.Errorf("exit %+v, %v", exit, err)
	}
	r.rest(t)
}

func TestStoppedTaskReceivesSIGTERM(t *testing.T) {
	r := start(t, proc.Spec{}, `trap 'exit 4' TERM; echo ready; kill -STOP $$; echo continued; while :; do sleep 0.01; done`)
	r.line(t)
	r.Terminate(time.Minute)
	if exit, err := r.Wait(); err != nil || exit.Code != 4 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestTreeDiesWithKilledOwner(t *testing.T) {
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+orphan+`trap "" TERM; echo ready; while :; do sleep 1000; done`)
	owner.ExtraFiles = []*os.File{lock}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	lock.Close() // now only the owner and the supervisor hold the lock
	r := running{out: bufio.NewReader(out)}
	r.line(t)
	r.line(t)
	again, err := os.Open(lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := syscall.Flock(int(again.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Error("the lock is free while the task runs")
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.rest(t)
	if err := syscall.Flock(int(again.Fd()), syscall.LOCK_EX); err != nil {
		t.Error(err)
	}
	_ = owner.Wait()
}

func TestTaskDoesNotInheritHold(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc to list descriptors")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := start(t, proc.Spec{Hold: f}, `ls -l /proc/$$/fd`)
	if got := r.rest(t); strings.Contains(got, "held") {
		t.Errorf("descriptors of the task:\n%s", got)
	}
}

func TestMarkerExistsWhileTreeRuns(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "task")
	r := start(t, proc.Spec{Marker: marker}, `echo ready; read x </dev/stdin; sleep 1000`)
	r.line(t)
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("while the task runs: %v", err)
	}
	r.Terminate(time.Millisecond)
	if _, err := r.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}

func TestKilledSupervisorTakesTaskWithIt(t *testing.T) {
	r := start(t, proc.Spec{}, `trap "" TERM; ps -o ppid= -p $$; while :; do sleep 1000; done`)
	supervisor, err := strconv.Atoi(r.line(t))
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(supervisor)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); !errors.Is(err, proc.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
	r.rest(t)
}

func TestStartWithoutReexecFails(t *testing.T) {
	t.Setenv("TRADEWIND_SUPERVISOR", "1")
	if _, err := proc.Start(proc.Spec{Argv: shell("true"), Output: os.Stderr}); !errors.Is(err, proc.ErrNotSupervised) {
		t.Errorf("Start: %v", err)
	}
}

func TestSignalIgnoresReusedPID(t *testing.T) {
	r := start(t, proc.Spec{}, `echo ready; exec sleep 1000`)
	r.line(t)
	id, err := proc.Identify(r.PID())
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []proc.Identity{
		{PID: id.PID, Start: id.Start + 1, Boot: id.Boot}, {PID: id.PID, Start: id.Start, Boot: "another"}, {},
		{PID: 1}, {PID: -1},
	} {
		if err := other.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) || other.Alive() {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if !id.Alive() {
		t.Fatal("the process was killed although its identity differs")
	}
	if err := id.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if exit, _ := r.Wait(); exit.Signal != syscall.SIGTERM {
		t.Errorf("exit %+v", exit)
	}
	if id.Alive() {
		t.Error("alive after its end")
	}
}

func TestSweepFindsProcessesByMachine(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc to read environments")
	}
	mark := "sweep-" + strconv.Itoa(os.Getpid())
	r := start(t, proc.Spec{Env: []string{proc.MachineEnv + "=" + mark}}, `echo ready; exec sleep 1000`)
	r.line(t)
	if n := proc.Sweep(proc.MachineEnv, mark+"x"); n != 0 {
		t.Errorf("swept %d of another machine", n)
	}
	if n := proc.Sweep(proc.MachineEnv, mark); n < 1 { // the supervisor, and the task unless it died with the supervisor
		t.Errorf("swept %d", n)
	}
	if _, err := r.Wait(); !errors.Is(err, proc.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
}

// A shell with job control (an interactive one) must receive the signal before the program that it waits for.
// Otherwise the shell would start its next program, which would get no signal.
func TestShellIsSignalledBeforeItsJobs(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for range 10 {
		// With many processes, a shell that is signalled last would have time to start its next line.
		r := start(t, proc.Spec{}, "exec "+bash+` -c '
set -m; trap "exit 3" TERM
sh -c "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; done
echo ready; exec sleep 1000"
echo went on; sleep 1000'`)
		r.line(t)
		r.Terminate(time.Hour)
		if exit, err := r.Wait(); err != nil || exit.Code != 3 {
			t.Fatalf("%+v, %v", exit, err)
		}
		if rest := r.rest(t); strings.Contains(rest, "went on") {
			t.Fatalf("the script continued: %q", rest)
		}
	}
}

func TestLeftProcessesRunUntilTerminate(t *testing.T) {
	r := start(t, proc.Spec{Leave: true, Linger: time.Hour}, orphan+`read x; echo bye`)
	if exit, err := r.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	select {
	case <-r.Done():
		t.Error("the process that the first one left has ended with it")
	default:
	}
	r.Terminate(time.Millisecond)
	if err := r.End(); err != nil {
		t.Error(err)
	}
	r.rest(t) // ends when no process holds the pipe
}

func TestFailedProcessLeavesNothing(t *testing.T) {
	r := start(t, proc.Spec{Leave: true, Linger: time.Millisecond}, orphan+`exit 3`)
	if exit, err := r.Wait(); err != nil || exit.Code != 3 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	r.rest(t)
}

func TestKilledSupervisorOfLeftProcessesIsReported(t *testing.T) {
	r := start(t, proc.Spec{Leave: true}, `ps -o ppid= -p $$; sh -c 'echo ready; exec sleep 1000' & true`)
	supervisor, err := strconv.Atoi(r.line(t))
	if err != nil {
		t.Fatal(err)
	}
	r.line(t)
	if _, err := r.Wait(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); !errors.Is(err, proc.ErrLost) {
		t.Errorf("End: %v", err)
	}
	r.rest(t)
}
