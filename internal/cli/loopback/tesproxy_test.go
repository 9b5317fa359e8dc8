package loopback_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

const tesToken = "a-token-of-its-own"

// proxied is a proxy in front of a broker that records the requests.
func proxied(t *testing.T) (proxy string, seen func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "broker=1")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	}))
	t.Cleanup(broker.Close)
	s := httptest.NewServer(loopback.TESHandler(client.New(broker.URL, "broker's"), tesToken))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func ask(t *testing.T, method, url, body string, auth func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	auth(r)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func bearer(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tesToken) }

func TestHandlerForwardsTESRequests(t *testing.T) {
	proxy, seen := proxied(t)
	for _, auth := range []func(*http.Request){bearer, func(r *http.Request) { r.SetBasicAuth("any", tesToken) }} {
		status, body, header := ask(t, http.MethodPost, proxy+"/ga4gh/tes/v1/tasks/a:cancel?view=FULL", `{"a":1}`, auth)
		if status != http.StatusTeapot || body != `{"id":"x"}` || header.Get("Set-Cookie") != "" {
			t.Errorf("%d %s %v", status, body, header)
		}
	}
	want := `POST /ga4gh/tes/v1/tasks/a:cancel?view=FULL Bearer broker's {"a":1}`
	if got := seen(); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("the broker saw %q", got)
	}
}

func TestHandlerRejectsOtherPathsAndBadTokens(t *testing.T) {
	proxy, seen := proxied(t)
	for _, path := range []string{
		"/v1/jobs", "/", "/ga4gh/tes/v1", "/ga4gh/tes/v1/../../../v1/jobs", "/ga4gh/tes/v1/%2e%2e/%2e%2e/%2e%2e/v1/jobs",
		"/ga4gh/tes/v1/..%2f..%2f..%2fv1/jobs", "/ga4gh/tes/v1/..%5cx", "/ga4gh/tes/v1//tasks",
	} {
		if status, body, _ := ask(t, http.MethodGet, proxy+path, "", bearer); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for name, auth := range map[string]func(*http.Request){
		"none":         func(*http.Request) {},
		"another":      func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tesToken+"x") },
		"empty":        func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"the broker's": func(r *http.Request) { r.Header.Set("Authorization", "Bearer broker's") },
	} {
		status, body, _ := ask(t, http.MethodGet, proxy+"/ga4gh/tes/v1/tasks", "", auth)
		if status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := seen(); len(got) > 0 {
		t.Errorf("the broker saw %q", got)
	}
}

func TestHandlerReportsUnreachableBroker(t *testing.T) {
	s := httptest.NewServer(loopback.TESHandler(gone{}, tesToken))
	defer s.Close()
	status, body, _ := ask(t, http.MethodGet, s.URL+"/ga4gh/tes/v1/tasks", "", bearer)
	if status != http.StatusBadGateway || !strings.Contains(body, "no AWS credentials") {
		t.Errorf("%d %s", status, body)
	}
}

// gone is a broker that cannot be reached.
type gone struct{}

func (gone) Pass(context.Context, *http.Request) (*http.Response, error) {
	return nil, errors.New("no AWS credentials: they have expired")
}

// A truncated list of tasks must not look complete.
func TestHandlerCutsTruncatedResponses(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tasks":[`)
		_ = http.NewResponseController(w).Flush() // begins a response that breaks off
		panic(http.ErrAbortHandler)
	}))
	defer broker.Close()
	s := httptest.NewServer(loopback.TESHandler(client.New(broker.URL, "broker's"), tesToken))
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/ga4gh/tes/v1/tasks", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	bearer(r)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return // nothing was sent yet
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%s, %q looks whole", res.Status, got)
	}
}
