package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const secret = "0123456789abcdef-the-token"

// serve returns a client of a server that answers every request with handle.
func serve(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	c := New(s.URL+"/", secret)
	c.firstPause = 1
	return c
}

func TestCallsUsePathAndToken(t *testing.T) {
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		if got := r.Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("%s: Authorization is %q", asked, got)
		}
		_, _ = io.WriteString(w, "{}")
	})
	ctx := context.Background()
	for want, call := range map[string]func() error{
		"GET /v1/jobs?limit=7":                 func() error { _, err := c.Jobs(ctx, 7); return err },
		"GET /v1/jobs/a%2Fb?limit=2000":        func() error { _, err := c.Job(ctx, "a/b"); return err },
		"GET /v1/jobs/j-1/explain?limit=2000":  func() error { _, err := c.Explain(ctx, "j-1"); return err },
		"POST /v1/jobs/j-1/remove":             func() error { _, err := c.Remove(ctx, "j-1"); return err },
		"POST /v1/jobs/j-1/cancel?reason=a+b":  func() error { _, err := c.Cancel(ctx, "j-1", "a b"); return err },
		"POST /v1/dags?name=x.yaml":            func() error { _, err := c.Submit(ctx, "x.yaml", "k", []byte("y"), nil); return err },
		"GET /v1/queues":                       func() error { _, err := c.Queues(ctx); return err },
		"PUT /v1/queues/research":              func() error { _, err := c.SetQueue(ctx, "research", apitypes.QueueQuota{}); return err },
		"GET /v1/jobs/j-1/waiting":             func() error { _, err := c.WhyWaiting(ctx, "j-1"); return err },
		"GET /v1/learned?job=a+b":              func() error { _, err := c.Learned(ctx, "a b"); return err },
		"GET /v1/blocks":                       func() error { _, err := c.Blocks(ctx); return err },
		"GET /v1/markets?limit=1000":           func() error { _, err := c.Markets(ctx); return err },
		"GET /v1/prices?offers=a%2Fb%2Cc":      func() error { _, err := c.Prices(ctx, "a/b", "c"); return err },
		"GET /v1/machines?all=true":            func() error { _, err := c.Machines(ctx, true); return err },
		"GET /v1/usage?hours=1.5":              func() error { _, err := c.Usage(ctx, 90*time.Minute); return err },
		"POST /v1/jobs/j-1/rerun":              func() error { _, err := c.Rerun(ctx, "j-1", "k"); return err },
		"GET /v1/jobs/j/tasks/t/logs?tail=100": func() error { return closed(c.Log(ctx, "j", "t", LogOptions{Tail: 100})) },
		"GET /v1/jobs/j/tasks/t/logs?attempt=2&follow=true&rank=1": func() error {
			return closed(c.Log(ctx, "j", "t", LogOptions{Attempt: 2, Rank: 1, Follow: true}))
		},
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if asked != want {
			t.Errorf("asked for %s, want %s", asked, want)
		}
	}
}

func closed(r io.ReadCloser, err error) error {
	if err == nil {
		err = r.Close()
	}
	return err
}

func TestSubmitSendsFileAndKey(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != "the file" || r.Header.Get("Idempotency-Key") != "once" {
			t.Errorf("body %q, key %q", body, r.Header.Get("Idempotency-Key"))
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"j-1","warnings":["w"]}`)
	})
	got, err := c.Submit(context.Background(), "x.yaml", "once", []byte("the file"), nil)
	if err != nil || got.ID != "j-1" || len(got.Warnings) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestProblemErrorNamesLine(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"title":"t","status":422,"file":"x.yaml","line":3,"field":"tasks.a","reason":"no","hint":"try"}`)
	})
	_, err := c.Submit(context.Background(), "x.yaml", "", nil, nil)
	var p *apitypes.Problem
	if !errors.As(err, &p) || p.Line != 3 || p.Hint != "try" || Status(err) != http.StatusUnprocessableEntity {
		t.Fatalf("got %#v", err)
	}
}

func TestQuotesForeignResponse(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "proxy: go away", http.StatusBadGateway)
	})
	if _, err := c.Jobs(context.Background(), 1); err == nil || !strings.Contains(err.Error(), "go away") || Status(err) != 0 {
		t.Fatalf("got %v", err)
	}
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if _, err := c.Jobs(context.Background(), 1); err == nil || !strings.Contains(err.Error(), "malformed response") {
		t.Fatalf("got %v", err)
	}
}

func TestDoesNotFollowRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	if _, err := c.Jobs(context.Background(), 1); err == nil {
		t.Fatal("a redirect was taken for an answer")
	}
}

func TestStoppedBrokerIsUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c := New(s.URL, secret)
	_, err := c.Cancel(context.Background(), "j", "a secret reason")
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error repeats the query: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Jobs(ctx, 1); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("given up by the caller: %v", err)
	}
}

func TestRetriesTemporaryErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		fail  func(w http.ResponseWriter)
		calls int
		ok    bool
	}{
		{"a function that was stopped", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"message":"Internal Server Error"}`)
		}, 3, true},
		{"throttled", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 3, true},
		{"broken off", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 3, true},
		{"refused", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, 1, false},
		{"not there", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex // the handler of an interrupted call may still run when the next call arrives
			var keys []string
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, r.Header.Get("Idempotency-Key"))
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != "file" {
					t.Errorf("try %d has the body %q: %v", len(keys), body, err)
				}
				if len(keys) < 3 {
					c.fail(w)
					return
				}
				_, _ = io.WriteString(w, `{"id":"j-1"}`)
			})
			job, err := client.Submit(context.Background(), "x.yaml", "the key", []byte("file"), nil)
			mu.Lock()
			defer mu.Unlock()
			if c.ok != (err == nil) || len(keys) != c.calls {
				t.Fatalf("%d calls, %v", len(keys), err)
			}
			if c.ok && job.ID != "j-1" {
				t.Errorf("job %q", job.ID)
			}
			for _, k := range keys {
				if k != "the key" {
					t.Errorf("a try has the key %q", k)
				}
			}
		})
	}
}

func TestReturnsPersistentErrorAfterRetries(t *testing.T) {
	calls := 0
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "no upstream")
	})
	_, err := c.Jobs(context.Background(), 1)
	if err == nil || !strings.Contains(err.Error(), "no upstream") || calls != tries {
		t.Errorf("%d calls, %v", calls, err)
	}
	calls = 0
	if err := c.RemovePool(context.Background(), "lab"); err == nil || calls != 1 {
		t.Errorf("a removal: %d calls, %v", calls, err)
	}
}
