package stage_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// A store is unreachable for some seconds. The transfer must be retried, because its failure could lose hours of a
// task's work.
func TestUnreachableStoreIsRetried(t *testing.T) {
	b := newBucket(t, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model"), []byte("ten hours of work"), 0o600); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Second)
	b.meet = func(w http.ResponseWriter, r *http.Request) bool {
		return time.Now().Before(until) && answer(503)(w, r)
	}
	began := time.Now()
	_, err := stage.Transfer{Grants: b, Store: b.url}.Upload(t.Context(), b.at("out"), dir, stage.Scan{},
		stage.Manifest{})
	if err != nil {
		t.Fatalf("given up after %v: %v", time.Since(began), err)
	}
}

// Google answers with status 200, the decompressed content, no length and no range if an object has Content-Encoding
// gzip and the client does not accept that (decompressive transcoding). The object must not be read as empty.
func TestObjectWithoutLengthIsNotEmpty(t *testing.T) {
	b := newBucket(t, map[string]string{"in": "x"})
	body := strings.Repeat("a row of a table\n", 1000)
	b.meet = func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(200)
		w.(http.Flusher).Flush() //nolint:forcetypeassert // a server's // chunked: no Content-Length
		_, _ = io.WriteString(w, body)
		return true
	}
	dir := t.TempDir()
	err := stage.Transfer{Grants: b, Store: b.url, Tries: 1}.Fetch(t.Context(), b.url+"/in", dir, "in", nil)
	got, readErr := os.ReadFile(filepath.Join(dir, "in"))
	if err == nil && string(got) != body {
		t.Fatalf("Fetch succeeded, and the file has %d bytes, not %d (%v)", len(got), len(body), readErr)
	}
}

// A stalled range is requested again.
func TestStalledRangeIsRetried(t *testing.T) {
	b := newBucket(t, nil)
	size := 24 << 20
	if err := os.WriteFile(filepath.Join(b.dir, "in"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	var gets atomic.Int32
	end := make(chan struct{})
	defer close(end)
	b.meet = func(w http.ResponseWriter, r *http.Request) bool {
		if gets.Add(1) != 2 {
			return false
		}
		b.Store.ServeHTTP(&cutOff{ResponseWriter: w, left: 1000, end: end, gone: r.Context().Done()}, r)
		return true
	}
	done := make(chan error, 1)
	go func() {
		done <- stage.Transfer{Grants: b, Store: b.url, Still: 500 * time.Millisecond}.
			Fetch(t.Context(), b.url+"/in", t.TempDir(), "in", nil)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Minute): // this range hangs; the timeout of a whole range is longer
		t.Fatalf("the range stalls and is not retried (%d requests)", gets.Load())
	}
}

// cutOff passes on a number of bytes. Then it stalls until the test ends or the client leaves.
type cutOff struct {
	http.ResponseWriter
	left int
	end  <-chan struct{}
	gone <-chan struct{}
}

// Write implements http.ResponseWriter.
func (c *cutOff) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left > 0 || err != nil {
		return n, err
	}
	if err := http.NewResponseController(c.ResponseWriter).Flush(); err != nil {
		return n, err
	}
	select {
	case <-c.end:
	case <-c.gone:
	}
	return n, io.ErrClosedPipe
}
