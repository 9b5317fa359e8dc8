package container

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Spec describes a container to start.
type Spec struct {
	Name  string // unique on the machine
	Image string // already on the machine
	Dirs  []string
	// Mounts maps paths in the container to files and directories of the machine.
	Mounts map[string]string
	// Scripts is one of Dirs. The package writes its own files there.
	Scripts string
	GPUs    bool
	// ShmBytes is the size of /dev/shm, the shared memory of a task's processes; 0 is the engine's default.
	ShmBytes int64
	// MemoryBytes limits the memory of the container. CPUs is its share of a busy CPU in vCPUs. 0 means no limit.
	MemoryBytes int64
	CPUs        float64
}

// Box is a running container. Its methods are safe for concurrent use.
type Box struct {
	engine  *Engine
	name    string
	scripts string
	stdin   io.Closer
	gone    chan struct{} // closed when the container has ended
}

// initScript is the first process of a box. It prints that it runs, and kills everything in the box when its input
// ends. As the first process of the container it ignores signals that it does not handle.
const initScript = `echo ready; read -r _; kill -KILL -1; exit 0`

// endScript ends all processes of the box except the first: it sends them SIGTERM and, after the given number of
// tenths of a second, SIGKILL. Zombies count as ended.
const endScript = `left=$1
alive() {
  for p in /proc/[0-9]*; do
    n=${p#/proc/}
    [ "$n" = 1 ] || [ "$n" = $$ ] && continue
    while read -r key state _; do
      [ "$key" = State: ] || continue
      [ "$state" = Z ] || return 0
      break
    done 2>/dev/null <"$p/status"
  done
  return 1
}
kill -TERM -1 2>/dev/null
while alive; do
  [ "$left" -gt 0 ] || { kill -KILL -1 2>/dev/null; break; }
  sleep 0.1 2>/dev/null
  left=$((left-1))
done
exit 0
`

const endName = "container-end"

// startWithin is the maximum time for the start of a container whose image is already on the machine.
const startWithin = 2 * time.Minute

// Start starts a container that runs until Close, or until this process ends.
func (e *Engine) Start(ctx context.Context, s Spec) (*Box, error) {
	if err := os.WriteFile(filepath.Join(s.Scripts, endName), []byte(endScript), 0o600); err != nil {
		return nil, err
	}
	args := []string{"run", "--rm", "--interactive", "--name", s.Name, "--network", "host", "--user", "0:0",
		"--security-opt", "label=disable", "--label", "tradewind=task", "--entrypoint", "/bin/sh"}
	for _, dir := range s.Dirs {
		args = append(args, "--volume", dir+":"+dir)
	}
	for path, dir := range s.Mounts {
		args = append(args, "--volume", dir+":"+path)
	}
	if s.ShmBytes > 0 {
		args = append(args, "--shm-size", strconv.FormatInt(s.ShmBytes, 10))
	}
	if s.MemoryBytes > 0 { // no swap in addition
		limit := strconv.FormatInt(s.MemoryBytes, 10) + "b"
		args = append(args, "--memory", limit, "--memory-swap", limit)
	}
	if s.CPUs > 0 {
		args = append(args, "--cpu-shares", strconv.Itoa(max(int(1024*s.CPUs), 2)))
	}
	switch {
	case s.GPUs && e.podman:
		args = append(args, "--device", "nvidia.com/gpu=all")
	case s.GPUs:
		args = append(args, "--gpus", "all")
	}
	var words bytes.Buffer
	//nolint:gosec,noctx // the engine of this machine; it outlives the start
	cmd := exec.Command(e.path, append(args, s.Image, "-c", initScript)...)
	cmd.Dir = s.Scripts // podman leaves a file named oom there after a kill for lack of memory
	cmd.Env, cmd.Stderr, cmd.WaitDelay = e.env, &tail{to: &words}, time.Second
	newProcessGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	b := &Box{engine: e, name: s.Name, scripts: s.Scripts, stdin: stdin, gone: make(chan struct{})}
	ready, ended := make(chan struct{}), error(nil)
	go func() {
		defer close(b.gone)
		lines := bufio.NewScanner(stdout)
		if lines.Scan() && lines.Text() == "ready" {
			close(ready)
		}
		_, _ = io.Copy(io.Discard, stdout)
		ended = cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	select {
	case <-ready:
		return b, nil
	case <-b.gone:
		return nil, fmt.Errorf("%w %s: %w", ErrStart, s.Image, withMessage(ended, words.String()))
	case <-ctx.Done():
		b.Close()
		return nil, fmt.Errorf("%w %s: %w", ErrStart, s.Image, ctx.Err())
	}
}

// Command returns the program that runs a script in the box, in a directory and with an environment that overrides
// the image's. Its arguments contain only file names. It prints the script's output and ends with the script's exit
// code. Variables whose names are not valid in a shell are omitted.
func (b *Box) Command(script, dir string, env []string) (argv []string, err error) {
	var text strings.Builder
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); shellName(name) {
			fmt.Fprintf(&text, "export %s=%s\n", name, Quote(value))
		}
	}
	wrapper := filepath.Join(b.scripts, "container-"+filepath.Base(script))
	fmt.Fprintf(&text, "rm -f %s 2>/dev/null # it may hold secrets\ncd %s || exit 126\n"+
		"[ -x /bin/bash ] && exec /bin/bash %[3]s\nexec /bin/sh %[3]s\n", Quote(wrapper), Quote(dir), Quote(script))
	if err := os.WriteFile(wrapper, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	return []string{b.engine.path, "exec", b.name, "/bin/sh", wrapper}, nil
}

// Env returns the environment for the engine's own programs.
func (b *Box) Env() []string { return b.engine.env }

// Gone returns a channel that is closed when the box has ended, by itself or by Close.
func (b *Box) Gone() <-chan struct{} { return b.gone }

// End sends SIGTERM to every process in the box, and SIGKILL after grace. It returns when all have ended.
func (b *Box) End(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace+answersWithin)
	defer cancel()
	tenths := strconv.Itoa(int(grace / (100 * time.Millisecond)))
	_, err := b.engine.output(ctx, "exec", b.name, "/bin/sh", filepath.Join(b.scripts, endName), tenths)
	if err != nil {
		select {
		case <-b.gone:
		default:
			b.remove()
		}
	}
}

// Chown changes the owner of directories of the box to a user of the machine. Otherwise the user could not read or
// remove the files that the box wrote.
func (b *Box) Chown(uid, gid int, dirs ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	args := append([]string{"exec", b.name, "chown", "-R", fmt.Sprintf("%d:%d", uid, gid)}, dirs...)
	_, err := b.engine.output(ctx, args...)
	return err
}

// Close ends the box and everything in it.
func (b *Box) Close() {
	_ = b.stdin.Close()
	select {
	case <-b.gone:
	case <-time.After(answersWithin):
		b.remove()
	}
}

func (b *Box) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	_, _ = b.engine.output(ctx, "rm", "--force", b.name)
}

// SignalOf returns the signal that ended a script in a box, from the exit code that the engine returns; 0 means none.
func SignalOf(code int) int {
	if code > 128 && code < 128+65 {
		return code - 128
	}
	return 0
}

// shellName reports whether a shell can have a variable of that name.
func shellName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Quote returns s as one literal word for the shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
