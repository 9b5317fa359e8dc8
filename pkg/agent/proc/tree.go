package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Errors of Start and Wait, wrapped with detail.
var (
	// ErrNotSupervised: the program does not call Reexec, or its supervisor could not start.
	ErrNotSupervised = errors.New("proc: no supervisor")
	// ErrLost: the supervisor was killed; the task was too, its exit is not known.
	ErrLost = errors.New("proc: supervisor lost")
	// ErrUnsupported: tasks do not run on this system.
	ErrUnsupported = errors.New("tasks run on Linux and macOS only: on Windows in WSL, " +
		"or by a broker elsewhere (--endpoint)")
)

// guardEnv is set in a supervisor, so that a program which forgot to call Reexec does not start itself for ever.
const guardEnv = "TRADEWIND_SUPERVISOR"

// MachineEnv is the variable by which Sweep finds the processes of a machine.
const MachineEnv = "TRADEWIND_MACHINE"

// AfterTimeout bounds Spec.After.
const AfterTimeout = 10 * time.Second

// startTimeout is how long a supervisor may take to start a task.
const startTimeout = 30 * time.Second

// Spec is a process tree to start.
type Spec struct {
	Argv []string // Argv[0] is a path
	Dir  string
	Env  []string // all of it; nothing is inherited
	// Output gets standard output and error.
	Output *os.File
	// Errors, when set, gets standard error instead.
	Errors *os.File
	// Input is standard input; nil is an empty one.
	Input *os.File
	// Terminal says that Input is a terminal, which is to be the task's controlling one.
	Terminal bool
	// Hold, when set, stays open until the whole tree is gone, in the supervisor too. A lock on it tells
	// others so. The task does not get it.
	Hold *os.File
	// Marker, when set, is a file that exists as long as anything of the tree may; what is left when both supervisor
	// and owner were killed is found by it.
	Marker string
	// After is a command that runs once nothing of the tree is left, however that came about, for AfterTimeout at most:
	// what the tree leaves behind that no process is. It is not run when the supervisor is killed, too.
	After []string
	// Linger is how long what the first process left behind may take to end, after SIGTERM.
	Linger time.Duration
}

// Exit is how the first process of a tree ended.
type Exit struct {
	Code   int            // its exit code, or 128 plus the signal
	Signal syscall.Signal // 0 when it was not killed
	Told   bool           // it still ran when it was told to end
}

// Tree is a process tree that runs or ran. Its methods are safe for concurrent use.
type Tree struct {
	pid     int
	cmd     *exec.Cmd
	control *os.File
	mu      sync.Mutex // guards writes to control
	done    chan struct{}
	exit    Exit
	err     error
}

// order is a line from owner to supervisor: the first is a task, the others how long
// the tree may take to end after SIGTERM.
type order struct {
	Argv   []string      `json:"argv,omitempty"`
	Dir    string        `json:"dir,omitempty"`
	Env    []string      `json:"env,omitempty"`
	Marker string        `json:"marker,omitempty"`
	After  []string      `json:"after,omitempty"`
	Linger time.Duration `json:"linger,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`
	// Input says that there is a standard input, and Terminal that it is a terminal.
	Input    bool `json:"input,omitempty"`
	Terminal bool `json:"terminal,omitempty"`
}

// status is a line from supervisor to owner: first that the task started, then that it ended and nothing of it is left.
type status struct {
	PID    int    `json:"pid,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Told   bool   `json:"told,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Start runs s under a supervisor. Whatever happens to the caller's process, the
// tree ends. The caller keeps its own copies of Output and Hold.
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
	defer closeAll(statusWrite) // the supervisor has its own
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
	t := &Tree{cmd: cmd, control: control, done: make(chan struct{})}
	if err := t.begin(s, statusRead); err != nil {
		closeAll(statusRead, control)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return t, nil
}

// closeAll closes ends of pipes, of which nothing more is expected.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// begin hands over the task and waits until it runs.
func (t *Tree) begin(s Spec, statuses *os.File) error {
	_ = t.control.SetWriteDeadline(time.Now().Add(startTimeout))
	if err := t.send(order{Argv: s.Argv, Dir: s.Dir, Env: s.Env, Marker: s.Marker, After: s.After,
		Linger: s.Linger, Input: s.Input != nil, Terminal: s.Terminal}); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSupervised, err)
	}
	_ = statuses.SetReadDeadline(time.Now().Add(startTimeout))
	lines := json.NewDecoder(bufio.NewReader(statuses))
	var first status
	if err := lines.Decode(&first); err != nil {
		return fmt.Errorf("%w: no answer from %s: %w", ErrNotSupervised, t.cmd.Path, err)
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

// follow waits for the end.
func (t *Tree) follow(statuses *os.File, lines *json.Decoder) {
	defer close(t.done)
	defer closeAll(statuses)
	var last status
	err := lines.Decode(&last)
	t.mu.Lock()
	_ = t.control.Close()
	t.mu.Unlock()
	_ = t.cmd.Wait()
	if err != nil || !last.Ended {
		signalGroup(t.pid, syscall.SIGKILL)
		t.err = fmt.Errorf("%w: %w", ErrLost, err)
		return
	}
	t.exit = Exit{Code: last.Code, Signal: syscall.Signal(last.Signal), Told: last.Told}
}

// Done is closed when nothing of the tree is left.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Wait returns how the first process ended, once nothing of the tree is left.
func (t *Tree) Wait() (Exit, error) {
	<-t.done
	return t.exit, t.err
}

// Terminate sends SIGTERM to every process of the tree and SIGKILL to those that are left after
// grace. It does not wait. A later call with less grace shortens what is left of the first.
func (t *Tree) Terminate(grace time.Duration) {
	// A broken pipe means that the supervisor has gone, and the tree with it.
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

// Signal sends a signal to the group of the tree's first process, while that may still be there.
func (t *Tree) Signal(sig syscall.Signal) {
	select {
	case <-t.done:
	default:
		signalGroup(t.pid, sig)
	}
}
