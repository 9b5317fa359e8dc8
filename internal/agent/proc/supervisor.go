//go:build unix

package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// supervisorName is the name of a supervisor in process lists.
const supervisorName = "tradewind-task"

// File descriptors of a supervisor in addition to the standard ones.
const (
	statusFD = 3
	holdFD   = 4
	inputFD  = 5
)

// Supported returns nil: tasks run on this system.
func Supported() error { return nil }

// Detached returns the attributes of a child process that does not get the terminal's signals, such as Ctrl-C.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// CloseOnExec prevents child processes from inheriting a descriptor.
func CloseOnExec(fd uintptr) { syscall.CloseOnExec(int(fd)) } //nolint:gosec // descriptors are small

// Reexec turns this process into a supervisor if it was started as one, and then does not return. Call it first in
// main or TestMain.
func Reexec() {
	if len(os.Args) == 1 && os.Args[0] == supervisorName && os.Getenv(guardEnv) != "" {
		syscall.Exit(supervise()) // no buffers need os.Exit to flush them
	}
}

// supervisor returns the command that starts a supervisor.
func supervisor(s Spec, control, statuses *os.File) *exec.Cmd {
	cmd := &exec.Cmd{
		Path:        self(),
		Args:        []string{supervisorName},
		Env:         append(slices.DeleteFunc(slices.Clone(s.Env), isMachineEnv), guardEnv+"=1"),
		Stdin:       control,
		Stdout:      s.Output,
		Stderr:      s.Output,
		ExtraFiles:  []*os.File{statuses},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a signal to the owner's group must only reach the owner
	}
	if s.Hold != nil || s.Input != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.Hold) // a nil file is closed in the child
	}
	if s.Input != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.Input)
	}
	if s.Errors != nil {
		cmd.Stderr = s.Errors
	}
	return cmd
}

func isMachineEnv(entry string) bool { return !strings.HasPrefix(entry, MachineEnv+"=") }

// supervision is the state of a supervisor.
type supervision struct {
	pid    int // of the task's first process, and of its group
	linger time.Duration
	leave  bool          // see Spec.Leave
	out    *json.Encoder // of statuses
	exit   *status       // nil while the first process runs
	told   bool          // the owner ordered it to end
	peak   int64         // bytes of memory that the largest process so far has used

	orders <-chan order     // closed when the owner is gone
	reaped <-chan reaped    // closed when no child is left
	killAt <-chan time.Time // fires at due, when the tree is killed
	due    time.Time
	poll   <-chan time.Time // if orphans are not adopted, triggers checks for processes that are not children
}

type reaped struct {
	pid  int
	ws   syscall.WaitStatus
	peak int64 // peak memory, in bytes, of the process or of its largest child
}

// supervise starts the task, waits until all of its processes have ended, and returns the supervisor's exit code.
func supervise() int {
	// The task's parent-death signal is tied to the thread that started it, so that thread must not end.
	runtime.LockOSThread()
	// Catch and drop these signals instead of ignoring them: the task would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	for _, fd := range []int{statusFD, holdFD, inputFD} {
		syscall.CloseOnExec(fd)
	}
	adoptOrphans()
	out := json.NewEncoder(os.NewFile(statusFD, "status"))
	in := bufio.NewReader(os.Stdin)
	var task order
	if readOrder(in, &task) != nil || len(task.Argv) == 0 {
		return 1
	}
	pid, err := startTask(task)
	if err != nil {
		removeMarker(task.Marker)
		_ = out.Encode(status{Error: err.Error(), NotIsolated: errors.Is(err, ErrNotIsolated)})
		return 1
	}
	_ = out.Encode(status{PID: pid}) // if this fails, the owner is gone and its other pipe is closed too
	t := &supervision{pid: pid, linger: task.Linger, leave: task.Leave, out: out, orders: orders(in), reaped: reap()}
	t.run()
	after(task)
	if t.exit == nil { // impossible: no one else waits for our children
		return 1
	}
	t.exit.Peak = t.peak
	removeMarker(task.Marker)
	_ = out.Encode(t.exit)
	return 0
}

// after runs Spec.After. Its output and errors are ignored.
func after(task order) {
	if len(task.After) == 0 {
		return
	}
	cmd := exec.Command(task.After[0], task.After[1:]...) //nolint:gosec,noctx // the owner's, with a timeout
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", task.Env, taskAttr()
	if cmd.Start() != nil {
		return
	}
	timer := time.AfterFunc(AfterTimeout, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
}

func startTask(task order) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close() //nolint:errcheck // only read
	input, attr := null.Fd(), taskAttr()
	if task.Input {
		input = inputFD
		defer syscall.Close(inputFD) //nolint:errcheck // the task has its own copy
	}
	if task.Terminal {
		attr.Setsid, attr.Setpgid, attr.Setctty, attr.Ctty = true, false, true, 0
	}
	fork := func() (int, error) {
		return syscall.ForkExec(task.Argv[0], task.Argv, &syscall.ProcAttr{ //nolint:gosec // the task's own program
			Dir:   task.Dir,
			Env:   task.Env,
			Files: []uintptr{input, os.Stdout.Fd(), os.Stderr.Fd()},
			Sys:   attr,
		})
	}
	if task.Isolation != nil {
		return isolatedTask(task, attr, fork)
	}
	return fork()
}

// run waits for the tree's end, and ends the tree when the owner orders it or is gone. When it returns, exit is set.
func (t *supervision) run() {
	for {
		select {
		case o, ok := <-t.orders:
			if !ok { // the owner has ended, and the task is not needed any more
				t.orders = nil
				t.kill()
				continue
			}
			t.told = true
			t.end(o.Grace)
		case <-t.killAt:
			t.kill()
		case r, ok := <-t.reaped:
			t.peak = max(t.peak, r.peak)
			switch {
			case !ok:
				t.reaped = nil
				t.poll = time.Tick(killRound)
			case r.pid == t.pid:
				t.exit = exitStatus(r.ws)
				t.exit.Told = t.told
				t.exitOrLeave()
			}
		case <-t.poll:
		}
		if t.reaped == nil && !treeLeft(t.pid) {
			return
		}
	}
}

// exitOrLeave ends the tree after its first process, or reports that its other processes keep running.
func (t *supervision) exitOrLeave() {
	if !t.leave || t.told || t.orders == nil || t.exit.Code != 0 || !treeLeft(t.pid) {
		t.end(t.linger)
		return
	}
	left := *t.exit
	left.Ended, left.Left, left.Peak = false, true, t.peak
	_ = t.out.Encode(left) // if this fails, the owner is gone and its other pipe is closed too
}

// end sends SIGTERM to every process of the tree, and sets the time after which it is killed.
func (t *supervision) end(grace time.Duration) {
	if t.exit != nil && !treeLeft(t.pid) {
		return
	}
	signalTree(t.pid, syscall.SIGTERM)
	signalTree(t.pid, syscall.SIGCONT) // a stopped process would not react
	due := time.Now().Add(grace)
	if t.killAt == nil || due.Before(t.due) {
		t.killAt, t.due = time.After(grace), due
	}
}

// killRound is the time between two rounds of killing.
const killRound = 5 * time.Millisecond

// kill kills all processes of the tree; the next round kills those that were forked meanwhile.
func (t *supervision) kill() {
	signalTree(t.pid, syscall.SIGKILL)
	t.killAt, t.due = time.After(killRound), time.Now()
}

func exitStatus(ws syscall.WaitStatus) *status {
	if ws.Signaled() {
		return &status{Ended: true, Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return &status{Ended: true, Code: ws.ExitStatus()}
}

// reap waits for every child of this process, including adopted ones.
func reap() <-chan reaped {
	c := make(chan reaped)
	go func() {
		defer close(c)
		for {
			var ws syscall.WaitStatus
			var used syscall.Rusage
			pid, err := syscall.Wait4(-1, &ws, 0, &used)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil: // ECHILD: no child is left
				return
			default:
				c <- reaped{pid, ws, used.Maxrss * maxrssUnit}
			}
		}
	}()
	return c
}

// orders reads the owner's orders until the owner is gone.
func orders(in *bufio.Reader) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if readOrder(in, &o) != nil {
				return
			}
			c <- o
		}
	}()
	return c
}

func readOrder(in *bufio.Reader, o *order) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, o)
}

// signalGroup sends a signal to every process of a group.
func signalGroup(group int, sig syscall.Signal) { _ = syscall.Kill(-group, sig) }

func removeMarker(path string) {
	if path != "" {
		_ = os.Remove(path)
	}
}
