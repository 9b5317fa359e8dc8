package filegrant_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// serve returns stores of one folder: at makes a store with a given time, and now has the real time.
func serve(t *testing.T, dir string) (at func(time.Time) grant.Store, calls func() int, now *filegrant.Store) {
	t.Helper()
	var store *filegrant.Store
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	key := []byte(strings.Repeat("k", 32))
	open := func(clock func() time.Time) *filegrant.Store {
		s, err := filegrant.New(dir, filegrant.Options{BaseURL: server.URL + "/data", Key: key, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	store = open(nil)
	at = func(now time.Time) grant.Store { return open(func() time.Time { return now }) }
	return at, func() int { return int(count.Load()) }, store
}

func TestConformance(t *testing.T) {
	granttest.Run(t, func(t *testing.T) granttest.Harness {
		dir := t.TempDir()
		at, calls, _ := serve(t, dir)
		return granttest.Harness{
			At: at, Calls: calls, Prefix: "file://" + dir + "/job/", Other: "file://" + dir + "/other/",
			Secrets: []string{strings.Repeat("k", 32)},
		}
	})
}

func request(t *testing.T, s grant.Store, w grant.Want, body string) int {
	t.Helper()
	w.For, w.Size = time.Minute, int64(len(body))
	grants, err := s.Sign(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	req, err := grants[0].Request(t.Context(), strings.NewReader(body), w.Size)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(grant.Redact(err))
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestLinksCannotLeaveFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, _, s := serve(t, dir)
	if status := request(t, s, grant.Want{Op: grant.Get, URI: "file://" + dir + "/link/secret"}, ""); status < 400 {
		t.Errorf("could read through a link out of the folder: %d", status)
	}
	if status := request(t, s, grant.Want{Op: grant.Put, URI: "file://" + dir + "/link/new"}, "x"); status < 400 {
		t.Errorf("could write through a link out of the folder: %d", status)
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("a file was written outside")
	}
}

func TestSignRejectsOtherFoldersAndUploads(t *testing.T) {
	dir := t.TempDir()
	_, _, s := serve(t, dir)
	for _, uri := range []string{
		"file:///etc/passwd", "file://" + dir + "2/x", "file://" + dir, "file://" + dir + "/.uploads/x", "s3://bucket/x",
		"file://" + dir + "/.UPLOADS/tmp/x",
	} {
		if g, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: uri, For: time.Minute}); err == nil {
			t.Errorf("%s was granted: %v", uri, g)
		}
	}
}

// A body ends early, as when a machine is interrupted. The old object must stay.
func TestTruncatedBodyKeepsOldObject(t *testing.T) {
	dir := t.TempDir()
	_, _, s := serve(t, dir)
	uri := "file://" + dir + "/object"
	if status := request(t, s, grant.Want{Op: grant.Put, URI: uri}, "whole"); status != http.StatusOK {
		t.Fatal(status)
	}
	grants, err := s.Sign(t.Context(), grant.Want{Op: grant.Put, URI: uri, For: time.Minute, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPut, grants[0].URL, strings.NewReader("half"))
	r.ContentLength = 10
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	if answer.Code != http.StatusBadRequest {
		t.Errorf("status %d", answer.Code)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "object")); string(got) != "whole" {
		t.Errorf("the object is %q", got)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, ".uploads", "tmp")); len(left) != 0 {
		t.Errorf("temporary files remain: %v", left)
	}
}

func TestSweepRemovesAbandonedFiles(t *testing.T) {
	dir := t.TempDir()
	_, _, s := serve(t, dir)
	uri := "file://" + dir + "/object"
	upload, err := s.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".uploads", "tmp", "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".uploads", upload)); err != nil {
		t.Errorf("an upload in progress was swept: %v", err)
	}
	if err := s.Sweep(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{upload, "tmp/left"} {
		if _, err := os.Stat(filepath.Join(dir, ".uploads", name)); err == nil {
			t.Errorf("%s was not swept", name)
		}
	}
}

func TestListOmitsUploads(t *testing.T) {
	dir := t.TempDir()
	_, _, s := serve(t, dir)
	uri := "file://" + dir + "/object"
	upload, err := s.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if code := request(t, s, grant.Want{Op: grant.Part, URI: uri, Upload: upload, Number: 1}, "part"); code != http.StatusOK {
		t.Fatal(code)
	}
	if code := request(t, s, grant.Want{Op: grant.Put, URI: uri}, "whole"); code != http.StatusOK {
		t.Fatal(code)
	}
	page, err := s.List(t.Context(), "file://"+dir+"/", "")
	if err != nil || len(page.Objects) != 1 || page.Objects[0].URI != uri {
		t.Errorf("%v, %v", page, err)
	}
	for _, outside := range []string{"file:///", "file://" + filepath.Dir(dir) + "/"} {
		if _, err := s.List(t.Context(), outside, ""); !errors.Is(err, grant.ErrStore) {
			t.Errorf("%s: %v, want ErrStore", outside, err)
		}
	}
}
