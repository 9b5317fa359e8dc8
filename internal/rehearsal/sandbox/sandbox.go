// Package sandbox runs Lambda binaries as Lambda does. Each sandbox is a process that gets one invocation at a time
// from the Runtime API (AWS Lambda developer guide, "Using the Lambda runtime API for custom runtimes", version
// 2018-06-01). It is frozen between two invocations, and killed when it exceeds its timeout. A function has as many
// sandboxes as concurrent invocations, up to a limit, and reuses them.
//
// It does not limit memory or processor time, and does not isolate the process from the file system. It measures
// memory and time instead.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Errors of an invocation, as the caller of a Lambda function sees them.
var (
	ErrTimeout  = errors.New("sandbox: time-out")
	ErrKilled   = errors.New("sandbox: the process ended")
	ErrInit     = errors.New("sandbox: the function did not start")
	ErrFunction = errors.New("sandbox: the function returned an error")
	// ErrThrottled means that the account runs its maximum number of functions. The function was not invoked.
	ErrThrottled = errors.New("sandbox: too many functions run")
)

// initWithin is the maximum time of a start.
const initWithin = 10 * time.Second

// invocation is one event being handled.
type invocation struct {
	id, trace, arn string
	payload        []byte
	deadline       time.Time
}

type result struct {
	body []byte
	err  error
}

// sandbox is one process.
type sandbox struct {
	cmd    *exec.Cmd
	server *http.Server
	next   chan *invocation
	done   chan result
	ready  chan struct{} // closed at the first request of the process for an invocation
	exited chan struct{}
	once   sync.Once

	mu     sync.Mutex
	frozen bool
	gone   bool
}

// start starts a process of a function, and returns when the process requests its first invocation.
func start(ctx context.Context, f *Function) (*sandbox, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback, immediate
	if err != nil {
		return nil, err
	}
	s := &sandbox{
		next: make(chan *invocation), done: make(chan result, 1), ready: make(chan struct{}),
		exited: make(chan struct{}),
	}
	const base = "/2018-06-01/runtime/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base+"invocation/next", s.handNext)
	mux.HandleFunc("POST "+base+"invocation/{id}/response", func(w http.ResponseWriter, r *http.Request) {
		s.handleResult(w, r, false)
	})
	mux.HandleFunc("POST "+base+"invocation/{id}/error", func(w http.ResponseWriter, r *http.Request) {
		s.handleResult(w, r, true)
	})
	mux.HandleFunc(
		"POST "+base+"init/error",
		func(w http.ResponseWriter, r *http.Request) { s.handleResult(w, r, true) },
	)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }() // ends with stop
	s.cmd = exec.Command(f.Binary)        //nolint:gosec,noctx // a sandbox outlives the invocation it was started for
	s.cmd.Env = append(f.environment(), "AWS_LAMBDA_RUNTIME_API="+l.Addr().String())
	s.cmd.Dir = os.TempDir()
	s.cmd.Stdout, s.cmd.Stderr = f.Log, f.Log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		_ = s.server.Close()
		return nil, fmt.Errorf("%w: %w", ErrInit, err)
	}
	go func() {
		_ = s.cmd.Wait() // only its end matters
		close(s.exited)
	}()
	timer := time.NewTimer(initWithin)
	defer timer.Stop()
	select {
	case <-s.ready:
		return s, nil
	case r := <-s.done:
		err = fmt.Errorf("%w: %w", ErrInit, r.err)
	case <-s.exited:
		err = fmt.Errorf("%w: it exited", ErrInit)
	case <-timer.C:
		err = fmt.Errorf("%w: %w", ErrInit, ErrTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.stop()
	return nil, err
}

// handNext answers the process's request for work. It blocks, with the process frozen, until there is some.
func (s *sandbox) handNext(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() { close(s.ready) })
	select {
	case i := <-s.next:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", i.arn)
		h.Set("Lambda-Runtime-Trace-Id", i.trace)
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(i.payload) // if the process has exited, invoke detects it
	case <-r.Context().Done():
	}
}

// maxAnswer is Lambda's limit on a response.
const maxAnswer = 6 << 20

func (s *sandbox) handleResult(w http.ResponseWriter, r *http.Request, failed bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	w.WriteHeader(http.StatusAccepted)
	res := result{body: body, err: err}
	switch {
	case failed:
		res.err = fmt.Errorf("%w: %s", ErrFunction, bytes.TrimSpace(body))
	case len(body) > maxAnswer:
		res.err = fmt.Errorf("%w: the answer is larger than 6 MiB", ErrFunction)
	}
	select {
	case s.done <- res:
	default: // no caller waits for it any more
	}
}

// invoke runs one invocation. After an error other than the function's own the sandbox is unusable.
func (s *sandbox) invoke(ctx context.Context, i *invocation) ([]byte, error) {
	s.thaw()
	timer := time.NewTimer(time.Until(i.deadline))
	defer timer.Stop()
	select {
	case s.next <- i:
	case <-s.exited:
		return nil, ErrKilled
	case <-timer.C:
		return nil, ErrTimeout
	}
	select {
	case r := <-s.done:
		return r.body, r.err
	case <-s.exited:
		select {
		case r := <-s.done: // it had answered
			return r.body, r.err
		default:
		}
		return nil, ErrKilled
	case <-timer.C:
		return nil, ErrTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// freeze stops the process until the next invocation, as Lambda does: its background work stops, too.
func (s *sandbox) freeze() { s.signal(true, syscall.SIGSTOP) }

func (s *sandbox) thaw() { s.signal(false, syscall.SIGCONT) }

func (s *sandbox) signal(frozen bool, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone && s.frozen != frozen {
		s.frozen = frozen
		_ = syscall.Kill(s.cmd.Process.Pid, sig) // it may have ended
	}
}

// kill ends the process like a failure of its machine.
func (s *sandbox) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// stop ends the sandbox and waits for its process.
func (s *sandbox) stop() {
	s.kill()
	<-s.exited
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	_ = s.server.Close()
}

// peak returns the maximum memory that the process has held, bytes.
func (s *sandbox) peak() int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
