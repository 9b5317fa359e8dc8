package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
)

const (
	readyWithin = 90 * time.Second // for a cold disk and busy cores; usually one or two seconds
	portTries   = 5                // another process may take a free port before the emulator binds it
	keepLogs    = 24 * time.Hour
)

// Process is a running emulator.
type Process struct {
	Name     string
	Endpoint string // http://127.0.0.1:PORT
	Log      string // file with its output; kept for a day

	watched io.Closer     // our end of the pipe; closing it ends the process
	exited  chan struct{} // closed when the process has ended
}

// watch runs its arguments as a command in a separate process group, and kills the whole
// group when standard input closes or the command ends.
const watch = `("$@"; kill -KILL 0) & cat >/dev/null; kill -KILL 0`

// Start starts an emulator on a free loopback port and returns when it answers. It runs until
// Stop or until the calling process ends.
func Start(s Server) (*Process, error) {
	tools, err := ToolsDir()
	if err != nil {
		return nil, err
	}
	for range portTries {
		var p *Process
		p, err = launch(s, tools)
		if err != nil {
			return nil, err
		}
		if err = p.awaitReady(); err == nil {
			return p, nil
		}
		p.Stop()
		if !errors.Is(err, errEnded) {
			return nil, err
		}
	}
	return nil, err
}

func launch(s Server, tools string) (*Process, error) {
	free, err := freeport.Find()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	port := strconv.Itoa(free)
	command, err := s.Command(tools, port)
	if err != nil {
		return nil, err
	}
	log, err := createLog(tools, s.Name)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("sh", append([]string{"-c", watch, "sh"}, command...)...) //nolint:gosec // only commands of emulators
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	watched, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("emulator: start %s: %w", s.Name, err)
	}
	p := &Process{
		Name: s.Name, Endpoint: "http://127.0.0.1:" + port, Log: log.Name(),
		watched: watched, exited: make(chan struct{}),
	}
	go func() {
		_ = cmd.Wait() // it is always killed; see the log for the reason
		close(p.exited)
	}()
	return p, nil
}

// Stop ends the emulator and all processes that it started.
func (p *Process) Stop() {
	_ = p.watched.Close()
	<-p.exited
}

var errEnded = errors.New("ended before it answered")

// awaitReady sends requests until it gets an answer that is not a server error.
func (p *Process) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if answers(ctx, p.Endpoint) {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("emulator: %s %w:\n%s", p.Name, errEnded, tail(p.Log))
		case <-ctx.Done():
			return fmt.Errorf("emulator: %s does not answer after %v:\n%s", p.Name, readyWithin, tail(p.Log))
		case <-poll.C:
		}
	}
}

func answers(ctx context.Context, endpoint string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode < http.StatusInternalServerError
}

// createLog makes a log file under .tools/logs and removes old ones.
func createLog(tools, name string) (*os.File, error) {
	dir := filepath.Join(tools, "logs")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	for _, f := range old {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > keepLogs {
			_ = os.Remove(f)
		}
	}
	return os.CreateTemp(dir, strings.ReplaceAll(strings.ToLower(name), " ", "-")+"-*.log")
}

func tail(file string) string {
	const most = 4 << 10
	text, err := os.ReadFile(file) //nolint:gosec // our own log
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
