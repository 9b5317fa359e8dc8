package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Errors of Start and Wait, wrapped with detail.
var (
	// ErrNotSupervised means that the program does not call Reexec, or that its supervisor could not start.
	ErrNotSupervised = errors.New("proc: no supervisor")
	// ErrLost means that the supervisor was killed. The task was killed too; its exit is unknown.
	ErrLost = errors.New("proc: supervisor lost")
	// ErrNotIsolated means that this process may not run a task as another user in a separate mount namespace.
	ErrNotIsolated = errors.New("proc: the task cannot be isolated")
	// ErrUnsupported means that tasks do not run on this system.
	ErrUnsupported = errors.New("tasks run only on Linux and macOS; on Windows use WSL, " +
		"or a broker elsewhere (--endpoint)")
)

// guardEnv is set in a supervisor, so that a program that does not call Reexec does not start itself endlessly.
const guardEnv = "TRADEWIND_SUPERVISOR"

// MachineEnv is the variable with which Sweep finds the processes of a machine.
const MachineEnv = "TRADEWIND_MACHINE"

// AfterTimeout is the timeout of Spec.After.
const AfterTimeout = 10 * time.Second

// startTimeout is the maximum time for a supervisor to start a task.
const startTimeout = 30 * time.Second

// Spec describes a process tree to start.
type Spec struct {
	Argv []string // Argv[0] is a path
	Dir  string
	Env  []string // the complete environment; nothing is inherited
	// Output receives standard output and standard error.
	Output *os.File
	// Errors, if set, receives standard error instead.
	Errors *os.File
	// Input is standard input; nil means empty input.
	Input *os.File
	// Terminal means that Input is a terminal, which becomes the task's controlling terminal.
	Terminal bool
	// Hold, if set, stays open until the whole tree has ended, also in the supervisor. Other processes can check a
	// lock on it. The task does not inherit it.
	Hold *os.File
	// Marker, if set, is a file that exists while processes of the tree may exist. It shows that there may be
	// remaining processes after both the supervisor and the owner were killed.
	Marker string
	// After is a command that runs once the whole tree has ended, for whatever reason, for at most AfterTimeout. It
	// cleans up resources other than processes. It does not run if the supervisor was killed too.
	After []string
	// Linger is the time between SIGTERM and SIGKILL for processes that still run when the first process has ended.
	Linger time.Duration
	// Leave lets the processes continue that still run when the first process has ended with exit code 0. They run
	// until Terminate or the end of the caller's process.
	Leave bool
	// Isolation, if set, runs the task as another user. The caller must be root.
	Isolation *Isolation
}

// Isolation separates a task from other tasks on its machine: it runs as another user, with separate temporary
// directories. Only Linux has it.
type Isolation struct {
	UID int    `json:"uid"` // of its user, and of that user's only group
	Dir string `json:"dir"` // the task's folder, which the user must be able to enter
	Tmp string `json:"tmp"` // the directory in the place of /tmp and /var/tmp
	// Shared are other folders that keep their paths. The owner of a folder decides what the task's user may do in
	// it.
	Shared []string `json:"shared,omitempty"`
	// Files are the paths of files below Dir in the place of files of the machine.
	Files map[string]string `json:"files,omitempty"`
	// Groups are the directories of the control groups in which the task runs.
	Groups []string `json:"groups,omitempty"`
}

// Exit is the exit code or signal with which the first process of a tree ended, and the memory use.
type Exit struct {
	Code       int            // exit code, or 128 plus the signal
	Signal     syscall.Signal // 0 if it was not killed by a signal
	Terminated bool           // Terminate was called while it ran
	// PeakBytes is the most memory that one process of the tree has used (ru_maxrss, getrusage(2)); 0 if it is unknown.
	PeakBytes int64
}

// Tree is a process tree that runs or has run. Its methods are safe for concurrent use.
type Tree struct {
	pid     int
	cmd     *exec.Cmd
	control *os.File
	mu      sync.Mutex // guards writes to control
	exited  chan struct{}
	done    chan struct{}
	exit    Exit
	err     error // of Wait, set before exited is closed
	lost    error // of End, set before done is closed
}

// order is a line from the owner to the supervisor. The first one describes the task. Each later one ends the tree:
// it contains the time between SIGTERM and SIGKILL.
type order struct {
	Argv   []string      `json:"argv,omitempty"`
	Dir    string        `json:"dir,omitempty"`
	Env    []string      `json:"env,omitempty"`
	Marker string        `json:"marker,omitempty"`
	After  []string      `json:"after,omitempty"`
	Linger time.Duration `json:"linger,omitempty"`
	Leave  bool          `json:"leave,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`
	// Input means that there is a standard input, and Terminal that it is a terminal.
	Input    bool `json:"input,omitempty"`
	Terminal bool `json:"terminal,omitempty"`

	Isolation *Isolation `json:"isolation,omitempty"`
}

// status is a line from the supervisor to the owner. The first line reports that the task has started, and the last
// one that the whole tree has ended. If other processes of the tree run on after the first process, a line between
// them reports its end.
type status struct {
	PID    int    `json:"pid,omitempty"`
	Left   bool   `json:"left,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Told   bool   `json:"told,omitempty"`
	Peak   int64  `json:"peak,omitempty"` // bytes
	Error  string `json:"error,omitempty"`
	// NotIsolated means that Error is an ErrNotIsolated.
	NotIsolated bool `json:"notIsolated,omitempty"`
}

// Start runs s under a supervisor. The tree ends with the caller's process, in whatever way that ends. The caller
// keeps and closes its own copies of Output and Hold.
func Start(s Spec) (*Tree, error) {
	if os.Getenv(guardEnv) != "" {
		return nil, fmt.Errorf("%w: %s does not call proc.Reexec first", ErrNotSupervised, os.Args[0])
	}
	if err := Supported(); err != nil {
		return nil, err
	}
	if s.Marker != "" {
		if err := os.WriteFile(s.Marker, nil, 0o600); err != nil {
			return nil, fmt.Errorf("proc: mark: %w", err)
		}
	}
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("proc: pipe: %w", err)
	}
	defer closeAll(statusWrite) // the supervisor has its own copy
	controlRead, control, err := os.Pipe()
	if err != nil {
		closeAll(statusRead)
		return nil, fmt.Errorf("proc: pipe: %w", err)
	}
	defer closeAll(controlRead)
	cmd := supervisor(s, controlRead, statusWrite)
	if err := cmd.Start(); err != nil {
		closeAll(statusRead, control)
		return nil, fmt.Errorf("%w: %w", ErrNotSupervised, err)
	}
	t := &Tree{cmd: cmd, control: control, exited: make(chan struct{}), done: make(chan struct{})}
	if err := t.begin(s, statusRead); err != nil {
		closeAll(statusRead, control)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return t, nil
}

// closeAll closes pipe ends that are no longer needed.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// begin sends the task to the supervisor and waits until it runs.
func (t *Tree) begin(s Spec, statuses *os.File) error {
	_ = t.control.SetWriteDeadline(time.Now().Add(startTimeout))
	if err := t.send(order{Argv: s.Argv, Dir: s.Dir, Env: s.Env, Marker: s.Marker, After: s.After,
		Linger: s.Linger, Leave: s.Leave, Input: s.Input != nil, Terminal: s.Terminal,
		Isolation: s.Isolation}); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSupervised, err)
	}
	_ = statuses.SetReadDeadline(time.Now().Add(startTimeout))
	lines := json.NewDecoder(bufio.NewReader(statuses))
	var first status
	if err := lines.Decode(&first); err != nil {
		return fmt.Errorf("%w: no answer from %s: %w", ErrNotSupervised, t.cmd.Path, err)
	}
	if first.NotIsolated {
		return fmt.Errorf("%w: %s", ErrNotIsolated, strings.TrimPrefix(first.Error, ErrNotIsolated.Error()+": "))
	}
	if first.Error != "" {
		return fmt.Errorf("proc: start %s: %s", s.Argv[0], first.Error)
	}
	_ = statuses.SetReadDeadline(time.Time{})
	_ = t.control.SetWriteDeadline(time.Time{})
	t.pid = first.PID
	go t.follow(statuses, lines)
	return nil
}

// follow waits for the tree's end.
func (t *Tree) follow(statuses *os.File, lines *json.Decoder) {
	defer close(t.done)
	defer closeAll(statuses)
	var last status
	err := lines.Decode(&last)
	left := err == nil && last.Left
	if left {
		t.exit = exitOf(last)
		close(t.exited)
		err = lines.Decode(&last)
	}
	t.mu.Lock()
	_ = t.control.Close()
	t.mu.Unlock()
	_ = t.cmd.Wait()
	if err != nil || !last.Ended {
		signalGroup(t.pid, syscall.SIGKILL)
		t.lost = fmt.Errorf("%w: %w", ErrLost, err)
	}
	if left {
		return
	}
	if t.err = t.lost; t.err == nil {
		t.exit = exitOf(last)
	}
	close(t.exited)
}

func exitOf(s status) Exit {
	return Exit{Code: s.Code, Signal: syscall.Signal(s.Signal), Terminated: s.Told, PeakBytes: s.Peak}
}

// Exited returns a channel that is closed when the first process has ended. The whole tree has ended, too, unless
// Spec.Leave lets other processes continue.
func (t *Tree) Exited() <-chan struct{} { return t.exited }

// Done returns a channel that is closed when the whole tree has ended.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Wait waits like Exited and returns how the first process ended.
func (t *Tree) Wait() (Exit, error) {
	<-t.exited
	return t.exit, t.err
}

// End waits until the whole tree has ended. It returns an ErrLost if the supervisor was killed.
func (t *Tree) End() error {
	<-t.done
	return t.lost
}

// Terminate sends SIGTERM to every process of the tree, and SIGKILL to those that still run after grace. It does not
// wait. A later call with an earlier end replaces the first one.
func (t *Tree) Terminate(grace time.Duration) {
	// A broken pipe means that the supervisor has ended, and the tree with it.
	_ = t.send(order{Grace: max(grace, 1)})
}

func (t *Tree) send(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err = t.control.Write(append(line, '\n'))
	return err
}

// Signal sends a signal to the process group of the tree's first process, unless the tree has ended.
func (t *Tree) Signal(sig syscall.Signal) {
	select {
	case <-t.done:
	default:
		signalGroup(t.pid, sig)
	}
}
