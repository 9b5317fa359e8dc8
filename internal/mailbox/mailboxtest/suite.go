package mailboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Carrier carries the calls of an agent to a broker.
type Carrier struct {
	Client   *http.Client
	Endpoint string // of the broker
}

// Run is the conformance suite of carriers: every call reaches the handler as it was made, and its answer comes back
// as the handler gave it. open starts a carrier for a handler, until the test ends.
func Run(t *testing.T, open func(t *testing.T, handler http.Handler) Carrier) {
	h := &handler{news: make(chan struct{}), seen: map[string]int{}}
	c := open(t, h)
	s := suite{Carrier: c, h: h}
	for _, x := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a call arrives unchanged", s.unchanged},
		{"an answer arrives unchanged", s.answers},
		{"bodies of many sizes", s.bodies},
		{"a held call is answered when there is news", s.held},
		{"many calls at once", s.many},
		{"a call that was given up can be made again", s.again},
	} {
		t.Run(x.name, x.run)
	}
}

type suite struct {
	Carrier
	h *handler
}

// handler is a broker that echoes.
type handler struct {
	mu   sync.Mutex
	seen map[string]int
	news chan struct{}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.seen[r.URL.RequestURI()]++
	h.mu.Unlock()
	switch r.URL.Path {
	case "/gone":
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"detail":"it has finished"}`)
	case "/nothing":
		w.WriteHeader(http.StatusNoContent)
	case "/wait":
		select {
		case <-h.news:
			_, _ = io.WriteString(w, "news")
		case <-r.Context().Done():
		}
	case "/body":
		_, _ = w.Write(body)
	default:
		about := []string{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("Content-Type")}
		_, _ = io.WriteString(w, strings.Join(about, " ")+" "+string(body)) //nolint:gosec // not for browsers
	}
}

func (h *handler) times(target string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[target]
}

func (s suite) do(ctx context.Context, t *testing.T, method, target string, body []byte) (*http.Response, string) {
	t.Helper()
	resp, text, err := s.try(ctx, method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func (s suite) try(ctx context.Context, method, target string, body []byte) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.Endpoint+target, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer token")
	req.Header.Set("Content-Type", "text/x-test")
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func (s suite) unchanged(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		_, got := s.do(t.Context(), t, method, "/v1/x%20y?seen=3&wait=20s", []byte("hello"))
		if want := method + " /v1/x%20y?seen=3&wait=20s Bearer token text/x-test hello"; got != want {
			t.Errorf("the broker got %q, want %q", got, want)
		}
	}
	if _, got := s.do(t.Context(), t, http.MethodGet, "/get", nil); got != "GET /get Bearer token text/x-test " {
		t.Errorf("the broker got %q", got)
	}
}

func (s suite) answers(t *testing.T) {
	resp, text := s.do(t.Context(), t, http.MethodGet, "/gone", nil)
	if resp.StatusCode != http.StatusGone || resp.Header.Get("Retry-After") != "7" ||
		!strings.Contains(text, "finished") {
		t.Errorf("%s %v %q", resp.Status, resp.Header, text)
	}
	if resp, text := s.do(t.Context(), t, http.MethodPost, "/nothing", nil); resp.StatusCode != http.StatusNoContent ||
		text != "" {
		t.Errorf("%s %q", resp.Status, text)
	}
}

func (s suite) bodies(t *testing.T) {
	for _, size := range []int{0, 1, 4 << 10, 256 << 10, 3 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * i >> 3 & 0xff)
		}
		if _, got := s.do(t.Context(), t, http.MethodPost, "/body", body); got != string(body) {
			t.Errorf("a body of %d bytes came back with %d", size, len(got))
		}
	}
}

func (s suite) held(t *testing.T) {
	got := make(chan string, 1)
	go func() {
		_, text, err := s.try(t.Context(), http.MethodGet, "/wait", nil)
		got <- fmt.Sprint(text, err)
	}()
	for s.h.times("/wait") == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	select {
	case text := <-got:
		t.Fatalf("answered before there was news: %s", text)
	case s.h.news <- struct{}{}:
	}
	if text := <-got; text != "news<nil>" {
		t.Errorf("got %s", text)
	}
}

// many makes more calls than an agent has numbers at first.
func (s suite) many(t *testing.T) {
	const calls = 60
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			target := fmt.Sprintf("/many/%d", i)
			_, text, err := s.try(t.Context(), http.MethodPost, target, nil)
			if err != nil || !strings.HasPrefix(text, "POST "+target+" ") {
				t.Errorf("call %d: %q, %v", i, text, err)
			}
		})
	}
	wg.Wait()
}

// again gives a call up while the broker holds it, and makes it again.
func (s suite) again(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before := s.h.times("/wait")
	go func() {
		for s.h.times("/wait") == before {
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
	}()
	if _, _, err := s.try(ctx, http.MethodGet, "/wait", nil); err == nil {
		t.Fatal("answered without news")
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s.h.news <- struct{}{}: // for each of the calls that the broker holds
			case <-done:
				return
			}
		}
	}()
	if _, text := s.do(t.Context(), t, http.MethodGet, "/wait", nil); text != "news" {
		t.Errorf("got %q", text)
	}
}
