package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Function is a deployed Lambda function. Its fields are set before its first invocation.
type Function struct {
	Name    string
	ARN     string
	Region  string
	Binary  string // its bootstrap
	Memory  int    // MiB
	Timeout time.Duration
	Limit   int               // maximum number of concurrent sandboxes
	Env     map[string]string // as deployed
	Log     io.Writer
	// MayLoop is set if Lambda does not drop the invocations of a long chain (RecursiveLoop: Allow).
	MayLoop bool
	// Admit reports whether the account may run another function now, and returns a function to call at its end. nil
	// means that it always may.
	Admit func() (done func(), ok bool)
	// Seen is called after every invocation, with the time its process took to start if it was new; nil is not called.
	Seen func(began time.Time, cold time.Duration)

	mu    sync.Mutex
	slots chan struct{}
	idle  []*sandbox
	busy  map[*sandbox]bool
	usage Usage
}

// Usage are the amounts for which an account would be charged, plus measurements.
type Usage struct {
	Invocations int           `json:"invocations"`
	Errors      int           `json:"errors"`
	Starts      int           `json:"starts"`
	Billed      time.Duration `json:"billed"`  // each invocation rounded up to a millisecond; includes starts
	Slowest     time.Duration `json:"slowest"` // invocation
	ColdStart   time.Duration `json:"coldStart"`
	PeakBytes   int64         `json:"peakBytes"`
	Chain       int           `json:"chain"`   // most invocations in one chain of requests
	Dropped     int           `json:"dropped"` // CloudWatch's RecursiveInvocationsDropped
}

// GBSeconds returns the billed memory times its time.
func (u Usage) GBSeconds(memoryMiB int) float64 {
	return u.Billed.Seconds() * float64(memoryMiB) / 1024
}

// environment returns the environment of a process on Lambda: the deployed variables and those that Lambda sets, none
// of this machine.
func (f *Function) environment() []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=en_US.UTF-8", "TZ=:UTC", "HOME=/tmp", "LAMBDA_TASK_ROOT=/var/task",
		"_HANDLER=bootstrap", "AWS_LAMBDA_FUNCTION_NAME=" + f.Name, "AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(f.Memory), "AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + f.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=rehearsal", "AWS_EXECUTION_ENV=AWS_Lambda_provided.al2023",
		"AWS_REGION=" + f.Region, "AWS_DEFAULT_REGION=" + f.Region,
	}
	for k, v := range f.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// Invoke runs the function on an event and returns its answer. It waits for a free sandbox. causes are the tracing
// headers of the requests that caused it, none if Lambda does not get them. It returns errors of this package or ctx's.
func (f *Function) Invoke(ctx context.Context, payload []byte, causes ...string) ([]byte, error) {
	f.mu.Lock()
	if f.slots == nil {
		f.slots, f.busy = make(chan struct{}, max(f.Limit, 1)), map[*sandbox]bool{}
	}
	slots := f.slots
	f.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-slots }()
	if f.Admit != nil {
		done, ok := f.Admit()
		if !ok {
			return nil, ErrThrottled
		}
		defer done()
	}
	began := time.Now()
	s, cold, err := f.sandbox(ctx)
	if err != nil {
		f.count(began, cold, nil, err)
		return nil, err
	}
	if cold == 0 {
		began = time.Now()
	}
	i := &invocation{id: uuid(), trace: f.extend(causes), arn: f.ARN, payload: payload,
		deadline: time.Now().Add(f.Timeout)}
	body, err := s.invoke(ctx, i)
	f.count(began, cold, s, err)
	f.giveBack(s, err)
	return body, err
}

// sandbox returns the idle sandbox that was used last, or starts another one. cold is the time that the start took.
func (f *Function) sandbox(ctx context.Context) (s *sandbox, cold time.Duration, err error) {
	f.mu.Lock()
	for len(f.idle) > 0 {
		s = f.idle[len(f.idle)-1]
		f.idle = f.idle[:len(f.idle)-1]
		select {
		case <-s.exited: // it exited while idle
			continue
		default:
		}
		f.busy[s] = true
		f.mu.Unlock()
		return s, 0, nil
	}
	f.mu.Unlock()
	began := time.Now()
	s, err = start(ctx, f)
	cold = time.Since(began)
	if err != nil {
		return nil, cold, err
	}
	f.mu.Lock()
	f.busy[s] = true
	f.mu.Unlock()
	return s, cold, nil
}

// giveBack keeps a sandbox for the next invocation, or ends it if it is unusable.
func (f *Function) giveBack(s *sandbox, err error) {
	f.mu.Lock()
	delete(f.busy, s)
	f.mu.Unlock()
	if err != nil && !errors.Is(err, ErrFunction) {
		s.stop()
		return
	}
	s.freeze()
	f.mu.Lock()
	f.idle = append(f.idle, s)
	f.mu.Unlock()
}

func (f *Function) count(began time.Time, cold time.Duration, s *sandbox, err error) {
	took := time.Since(began)
	if f.Seen != nil {
		f.Seen(began, cold)
	}
	var peak int64
	if s != nil {
		peak = s.peak()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.usage.Invocations++
	f.usage.Billed += took.Truncate(time.Millisecond) + time.Millisecond
	f.usage.Slowest = max(f.usage.Slowest, took)
	f.usage.PeakBytes = max(f.usage.PeakBytes, peak)
	if cold > 0 {
		f.usage.Starts++
		f.usage.ColdStart = max(f.usage.ColdStart, cold)
	}
	if err != nil {
		f.usage.Errors++
	}
}

// Usage returns the function's usage so far.
func (f *Function) Usage() Usage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.usage
}

// KillOne kills the process of a running invocation; choose picks one of n. It returns false if none is running.
func (f *Function) KillOne(choose func(n int) int) bool {
	f.mu.Lock()
	var list []*sandbox
	for s := range f.busy {
		list = append(list, s)
	}
	f.mu.Unlock()
	if len(list) == 0 {
		return false
	}
	slices.SortFunc(list, func(a, b *sandbox) int { return a.cmd.Process.Pid - b.cmd.Process.Pid })
	list[choose(len(list))].kill()
	return true
}

// Close ends every idle sandbox. The next invocation starts a new one.
func (f *Function) Close() {
	f.mu.Lock()
	idle := f.idle
	f.idle = nil
	f.mu.Unlock()
	for _, s := range idle {
		s.stop()
	}
}

func random(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

func uuid() string {
	h := random(16)
	return fmt.Sprintf("%s-%s-4%s-a%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:])
}

// trace returns a tracing header like Lambda's.
func trace() string {
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", time.Now().Unix(), random(12), random(8))
}
