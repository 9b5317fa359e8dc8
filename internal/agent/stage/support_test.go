package stage_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// bucket is a folder that grants its content. Tests can change the answers of its server.
type bucket struct {
	testing.TB
	*filegrant.Store
	dir string // its folder
	url string // its URI
	log []string

	mu   sync.Mutex
	meet func(w http.ResponseWriter, r *http.Request) (done bool) // called first for each request
}

func newBucket(t testing.TB, objects map[string]string) *bucket {
	t.Helper()
	b := &bucket{TB: t, dir: t.TempDir()}
	b.url = "file://" + b.dir
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	var err error
	if b.Store, err = filegrant.New(b.dir, filegrant.Options{BaseURL: server.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for key, content := range objects {
		b.put(key, content)
	}
	return b
}

// ServeHTTP serves granted requests, and records their method and key.
func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, b.dir+"/")
	if part := r.URL.Query().Get("part"); part != "" {
		key += "#" + part
	}
	b.mu.Lock()
	b.log = append(b.log, r.Method+" "+key)
	meet := b.meet
	b.mu.Unlock()
	if meet != nil && meet(w, r) {
		return
	}
	b.Store.ServeHTTP(w, r)
}

// asked lists the requests with a method, by key.
func (b *bucket) asked(method string) (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.log {
		if key, ok := strings.CutPrefix(line, method+" "); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

func (b *bucket) put(key, content string) {
	b.Helper()
	p := filepath.Join(b.dir, key)
	if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
}

func (b *bucket) remove(key string) {
	b.Helper()
	if err := os.Remove(filepath.Join(b.dir, key)); err != nil {
		b.Fatal(err)
	}
}

// at returns the URI of a prefix.
func (b *bucket) at(prefix string) string { return b.url + "/" + prefix + "/" }

// objects lists the objects, sorted.
func (b *bucket) objects() (keys []string) {
	b.Helper()
	for after, more := "", true; more; more = after != "" {
		page, err := b.List(context.Background(), b.url+"/", after)
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range page.Objects {
			o, err := grant.Parse(l.URI)
			if err != nil {
				b.Fatal(err)
			}
			keys = append(keys, strings.TrimPrefix("/"+o.Key, b.dir+"/"))
		}
		after = page.Next
	}
	return keys
}

// once returns a Transfer with the bucket's grants and without retries.
func (b *bucket) once() stage.Transfer {
	return stage.Transfer{Grants: b, Store: b.url, Tries: 1}
}

// answer is a hook that answers with a status.
func answer(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>Status%d</Code></Error>", status)
		return true
	}
}

// uploads returns the remaining multipart uploads. A server that is still busy after its client has left gets some
// time to finish.
func (b *bucket) uploads() (left []string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		entries, err := os.ReadDir(filepath.Join(b.dir, ".uploads"))
		if err != nil {
			b.Fatal(err)
		}
		if len(entries) == 1 || time.Now().After(deadline) { // only the folder of temporary files is left
			for _, e := range entries[:len(entries)-1] {
				left = append(left, e.Name())
			}
			return left
		}
	}
}
