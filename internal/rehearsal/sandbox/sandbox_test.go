package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// TestMain lets the test binary be the Lambda function of its tests.
func TestMain(m *testing.M) {
	if api := os.Getenv("AWS_LAMBDA_RUNTIME_API"); api != "" {
		serve("http://" + api + "/2018-06-01/runtime/")
	}
	os.Exit(m.Run())
}

// serve requests events and does what they ask for.
func serve(api string) {
	if os.Getenv("BEGIN") == "fail" {
		post(api+"init/error", `{"errorMessage":"no configuration"}`)
		os.Exit(1)
	}
	for n := 1; ; n++ {
		res, err := http.Get(api + "invocation/next") //nolint:noctx // until it is killed
		if err != nil {
			os.Exit(1)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		at := api + "invocation/" + res.Header.Get("Lambda-Runtime-Aws-Request-Id")
		switch string(body) {
		case "fail":
			post(at+"/error", `{"errorMessage":"as asked"}`)
		case "die":
			os.Exit(3)
		case "trace":
			post(at+"/response", res.Header.Get("Lambda-Runtime-Trace-Id"))
		case "hang":
			select {}
		case "large":
			post(at+"/response", strings.Repeat("x", 7<<20))
		default:
			fmt.Printf("handled %s\n", body)
			post(at+"/response", fmt.Sprintf("%s %d of %s", body, n, os.Getenv("AWS_LAMBDA_FUNCTION_NAME")))
		}
	}
}

func post(url, body string) {
	res, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // until it is killed
	if err != nil {
		os.Exit(1)
	}
	_ = res.Body.Close()
}

type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func function(t *testing.T, change func(*sandbox.Function)) *sandbox.Function {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &sandbox.Function{Name: "f", ARN: "arn:f", Region: "us-east-1", Binary: self, Memory: 256, Timeout: time.Minute, Limit: 2, Log: &log{}}
	if change != nil {
		change(f)
	}
	t.Cleanup(f.Close)
	return f
}

func invoke(t *testing.T, f *sandbox.Function, event string) (string, error) {
	t.Helper()
	out, err := f.Invoke(t.Context(), []byte(event))
	return string(out), err
}

func TestSandboxIsReusedUntilItFails(t *testing.T) {
	out := &log{}
	f := function(t, func(f *sandbox.Function) { f.Log = out })
	for _, step := range []struct {
		event, want string
		err         error
	}{
		{"a", "a 1 of f", nil},
		{"b", "b 2 of f", nil},
		{"fail", "", sandbox.ErrFunction}, // an error of the function does not end its sandbox
		{"c", "c 4 of f", nil},
		{"die", "", sandbox.ErrKilled},
		{"d", "d 1 of f", nil},
		{"large", "", sandbox.ErrFunction},
		{"e", "e 3 of f", nil},
	} {
		got, err := invoke(t, f, step.event)
		if !errors.Is(err, step.err) || err == nil && got != step.want {
			t.Errorf("%s: %q, %v; want %q, %v", step.event, got, err, step.want, step.err)
		}
	}
	u := f.Usage()
	if u.Invocations != 8 || u.Errors != 3 || u.Starts != 2 || u.Billed <= 0 || u.ColdStart <= 0 || u.PeakBytes < 1<<20 {
		t.Errorf("usage %+v", u)
	}
	if !strings.Contains(out.String(), "handled b") {
		t.Errorf("log %q", out)
	}
}

func TestInvocationTimesOut(t *testing.T) {
	f := function(t, func(f *sandbox.Function) { f.Timeout = 200 * time.Millisecond })
	if _, err := invoke(t, f, "hang"); !errors.Is(err, sandbox.ErrTimeout) {
		t.Error(err)
	}
}

func TestStartFailure(t *testing.T) {
	f := function(t, func(f *sandbox.Function) { f.Env = map[string]string{"BEGIN": "fail"} })
	if _, err := invoke(t, f, "a"); !errors.Is(err, sandbox.ErrInit) {
		t.Error(err)
	}
	f = function(t, func(f *sandbox.Function) { f.Binary = "/nowhere" })
	if _, err := invoke(t, f, "a"); !errors.Is(err, sandbox.ErrInit) {
		t.Error(err)
	}
}

func TestLimitAndKillOne(t *testing.T) {
	f := function(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := f.Invoke(ctx, []byte("hang"))
			ended <- err
		}()
	}
	for f.Usage().Invocations == 0 && !f.KillOne(func(int) int { return 0 }) { // until one invocation is running
	}
	if err := <-ended; !errors.Is(err, sandbox.ErrKilled) {
		t.Errorf("killed: %v", err)
	}
	if got, err := invoke(t, f, "a"); err != nil || got != "a 1 of f" { // a new sandbox replaces the killed one
		t.Errorf("%q, %v", got, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
