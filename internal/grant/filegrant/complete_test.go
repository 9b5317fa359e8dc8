package filegrant_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// An agent gets no answer in time, and repeats Complete several times. Only one copy of the parts may be made.
func TestConcurrentCompleteCopiesOnce(t *testing.T) {
	dir := t.TempDir()
	var s *filegrant.Store
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	defer server.Close()
	s, err := filegrant.New(dir, filegrant.Options{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // in a test
	uri := "file://" + dir + "/object"
	upload, err := s.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	var parts []grant.Uploaded
	for n := 1; n <= 30; n++ {
		body := make([]byte, 8<<20)
		g, err := s.Sign(t.Context(), grant.Want{Op: grant.Part, URI: uri, For: time.Hour, Size: int64(len(body)),
			Upload: upload, Number: n})
		if err != nil {
			t.Fatal(err)
		}
		req, err := g[0].Request(t.Context(), bytes.NewReader(body), int64(len(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(err, resp.Status)
		}
		_ = resp.Body.Close()
		parts = append(parts, grant.Uploaded{Number: n, ETag: resp.Header.Get("ETag")})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // the first client stops waiting
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			err := s.Complete(gone, uri, upload, parts)
			if err != nil && !errors.Is(err, grant.ErrUpload) { // the upload may be complete already
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	most := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(2 * time.Millisecond):
		}
		if tmp, err := os.ReadDir(filepath.Join(dir, ".uploads", "tmp")); err == nil {
			most = max(most, len(tmp))
		}
	}
	if most > 1 {
		t.Errorf("%d copies of the object were made at once", most)
	}
}
