package stage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// size of a file that is moved in four parts, of which the last is small
const manyParts = 3*grant.MinPart + 17

// noise returns random text, generated once. It is larger than any file of these tests.
var noise = sync.OnceValue(func() string {
	b := make([]byte, manyParts)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
})

func random(n int) string { return noise()[:n] }

// parted returns a Transfer with the minimum part size.
func (b *bucket) parted() stage.Transfer {
	return stage.Transfer{Grants: b, Store: b.url, Part: grant.MinPart, Parallel: 3}
}

func TestManifestIsWrittenLast(t *testing.T) {
	src := newDir(t, tree{"a": "1", "b": "2", "c": "3", "d/e": "4"})
	for most := range int64(6) { // the store accepts this number of objects
		b := newBucket(t, nil)
		var taken atomic.Int64
		b.meet = func(w http.ResponseWriter, r *http.Request) bool {
			return taken.Add(1) > most && answer(http.StatusServiceUnavailable)(w, r)
		}
		tr := b.once()
		tr.Parallel = 2
		_, err := tr.Upload(t.Context(), b.at("p"), src, stage.Scan{}, stage.Manifest{})
		if (err == nil) != (most == 5) {
			t.Errorf("%d objects of 5: %v", most, err)
		}
		asked := b.asked("PUT")
		if i := slices.Index(asked, "p/manifest.json"); i >= 0 && (i != 4 || most < 4) {
			t.Errorf("%d objects: order %v", most, asked)
		}
	}
}

// These failures are temporary and must be retried: a server error, a cut connection, a short body, an expired grant.
func TestTemporaryFailureIsRetried(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) bool {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return true
	}
	short := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return cut(w, r)
		}
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write([]byte("the beginning"))
		return cut(w, r)
	}
	for name, trouble := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"503": answer(503), "500": answer(500), "429": answer(429), "403, as of an expired grant": answer(403),
		"400, as Google's of one": answer(400), "a cut connection": cut, "a short body": short,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t, nil)
			var mu sync.Mutex
			met := map[string]int{}
			b.meet = func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				key := r.Method + r.URL.Path + r.URL.Query().Get("part") + r.Header.Get("Range")
				met[key]++
				first := met[key] == 1
				mu.Unlock()
				return first && trouble(w, r)
			}
			want := tree{"large": random(manyParts), "small": "s", "empty": ""}
			if _, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, want), stage.Scan{}, stage.Manifest{}); err != nil {
				t.Fatal(err)
			}
			dst := t.TempDir()
			if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil {
				t.Fatal(err)
			}
			if got := read(t, dst); len(got) != 3 || got["large"] != want["large"] || got["small"] != "s" {
				t.Errorf("%d files differ", len(got))
			}
		})
	}
}

func TestClientErrorsAreNotRetried(t *testing.T) {
	for status, most := range map[int]int{http.StatusNotFound: 1, http.StatusMethodNotAllowed: 1, http.StatusForbidden: 2} {
		b := newBucket(t, nil)
		b.meet = answer(status)
		_, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, tree{"a": "1"}), stage.Scan{}, stage.Manifest{})
		if err == nil || !strings.Contains(err.Error(), "write a:") || !strings.Contains(err.Error(), "Status") {
			t.Errorf("%d: %v", status, err)
		}
		if n := len(b.asked("PUT")); n != most {
			t.Errorf("%d: asked %d times, want %d", status, n, most)
		}
	}
}

// denying refuses to grant, and counts the calls.
type denying struct {
	stage.Grants
	err   error
	calls int
}

func (d *denying) Sign(context.Context, ...grant.Want) ([]grant.Grant, error) {
	d.calls++
	return nil, d.err
}

func TestRefusedGrantIsNotRetried(t *testing.T) {
	for _, err := range []error{grant.ErrOutside, grant.ErrStore, stage.ErrRefused} {
		d := &denying{err: err}
		got := stage.Transfer{Grants: d}.Fetch(t.Context(), "s3://b/x", t.TempDir(), "x", nil)
		if !errors.Is(got, err) || d.calls != 1 {
			t.Errorf("%v: %v after %d calls", err, got, d.calls)
		}
	}
	d := &denying{err: io.ErrUnexpectedEOF}
	if _ = (stage.Transfer{Grants: d, Tries: 2}).Fetch(t.Context(), "s3://b/x", t.TempDir(), "x", nil); d.calls != 2 {
		t.Errorf("a temporary error: %d calls", d.calls)
	}
}

func TestLargeFilesMoveInParallelParts(t *testing.T) {
	for name, size := range map[string]int{
		"just a part": grant.MinPart, "a byte more": grant.MinPart + 1, "two parts": 2 * grant.MinPart, "many": manyParts,
	} {
		b := newBucket(t, nil)
		want := tree{"f": random(size)}
		m, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, want), stage.Scan{}, stage.Manifest{})
		if err != nil {
			t.Fatal(err)
		}
		parts := (size + grant.MinPart - 1) / grant.MinPart
		if n := len(b.asked("PUT")); n != parts+1 || m.Files[0].Size != int64(size) {
			t.Errorf("%s: %d requests, want %d and the manifest: %v", name, n, parts, b.asked("PUT"))
		}
		dst := t.TempDir()
		if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || read(t, dst)["f"] != want["f"] {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(b.asked("GET")); n != parts+1 {
			t.Errorf("%s: %d requests to read, want %d and the manifest", name, n, parts)
		}
		in := t.TempDir() // an input of unknown size
		if err := b.parted().Fetch(t.Context(), b.at("p")+"files/f", in, "f", nil); err != nil || read(t, in)["f"] != want["f"] {
			t.Errorf("%s as an input: %v", name, err)
		}
		if left := b.uploads(); len(left) != 0 {
			t.Errorf("%s: uploads are left: %v", name, left)
		}
	}
}

func TestFailedMultipartUploadIsAborted(t *testing.T) {
	b := newBucket(t, nil)
	b.meet = func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("part") == "3" && answer(http.StatusConflict)(w, r)
	}
	_, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, tree{"f": random(manyParts)}), stage.Scan{}, stage.Manifest{})
	if err == nil || len(b.objects()) != 0 {
		t.Errorf("%v, objects %v", err, b.objects())
	}
	if left := b.uploads(); len(left) != 0 {
		t.Errorf("uploads are left: %v", left)
	}
}

// One part is changed during the transfer, but keeps its size. This must be detected, and the part read again.
func TestDamagedPartIsReadAgain(t *testing.T) {
	b := newBucket(t, nil)
	want := random(manyParts)
	if _, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, tree{"f": want}), stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	spoil := func(times int64) {
		b.meet = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.Header.Get("Range"), "bytes=10485760-") || atomic.AddInt64(&times, -1) < 0 {
				return false
			}
			rec := &spoiling{ResponseWriter: w}
			b.Store.ServeHTTP(rec, r)
			return true
		}
	}
	spoil(1)
	dst := t.TempDir()
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || read(t, dst)["f"] != want {
		t.Errorf("damaged once: %v", err)
	}
	spoil(100)
	if _, err := b.parted().Download(t.Context(), b.at("p"), t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("damaged always: %v", err)
	}
}

// spoiling changes one byte of each piece.
type spoiling struct{ http.ResponseWriter }

func (s *spoiling) Write(p []byte) (int, error) {
	q := bytes.Clone(p)
	q[0]++
	return s.ResponseWriter.Write(q)
}

func TestChangingObjectIsNotMixed(t *testing.T) {
	b := newBucket(t, map[string]string{"in/f": random(manyParts)})
	var once sync.Once
	old, fresh := random(manyParts), strings.Repeat("x", manyParts)
	b.put("in/f", old)
	b.meet = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=5242880-") {
			once.Do(func() {
				b.put("in/f", fresh)
				later := time.Now().Add(time.Hour)
				_ = os.Chtimes(filepath.Join(b.dir, "in/f"), later, later)
			})
		}
		return false
	}
	dst := t.TempDir()
	if err := b.parted().Fetch(t.Context(), b.url+"/in/f", dst, "f", nil); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dst)["f"]; got != fresh && got != old {
		t.Error("the old and the new content were mixed")
	}
}

// counting is a granter that counts its calls.
type counting struct {
	stage.Grants
	most, calls int
	mu          sync.Mutex
}

func (c *counting) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	c.mu.Lock()
	c.calls++
	c.most = max(c.most, len(wants))
	c.mu.Unlock()
	return c.Grants.Sign(ctx, wants...)
}

func TestManySmallFilesShareGrantRequests(t *testing.T) {
	want := tree{}
	for i := range 95 {
		want["d/"+strings.Repeat("x", i+1)] = strings.Repeat("y", i)
	}
	b := newBucket(t, nil)
	c := &counting{Grants: b}
	tr := stage.Transfer{Grants: c, Store: b.url, Batch: 20}
	if err := tr.Put(t.Context(), newDir(t, want), ".", b.url+"/plain/"); err != nil {
		t.Fatal(err)
	}
	if c.calls != 5 || c.most != 20 {
		t.Errorf("%d calls for up to %d grants", c.calls, c.most)
	}
	dst := t.TempDir()
	err := tr.Fetch(t.Context(), b.url+"/plain/", dst, ".", nil)
	if err != nil || len(read(t, dst)) != len(want) || c.calls != 10 {
		t.Errorf("%v, %d calls", err, c.calls)
	}
}

func TestUploadFailsIfFileChanges(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"shorter": func(p string) error { return os.Truncate(p, grant.MinPart) },
		"longer":  func(p string) error { return os.WriteFile(p, make([]byte, manyParts+1), 0o600) },
		"other":   func(p string) error { return os.WriteFile(p, make([]byte, manyParts), 0o600) },
	} {
		b := newBucket(t, nil)
		dir := newDir(t, tree{"f": random(manyParts)})
		var once sync.Once
		b.meet = func(http.ResponseWriter, *http.Request) bool {
			once.Do(func() {
				if err := change(filepath.Join(dir, "f")); err != nil {
					t.Error(err)
				}
			})
			return false
		}
		tr := b.parted()
		tr.Tries = 1
		if _, err := tr.Upload(t.Context(), b.at("p"), dir, stage.Scan{}, stage.Manifest{}); err == nil {
			t.Errorf("%s: a mixture was kept: %v", name, b.objects())
		}
		if slices.Contains(b.objects(), "p/manifest.json") {
			t.Errorf("%s: and has a manifest", name)
		}
	}
}

func TestErrorsContainNoSignature(t *testing.T) {
	b := newBucket(t, map[string]string{"in/f": "x"})
	for _, meet := range []func(http.ResponseWriter, *http.Request) bool{
		answer(500),
		func(w http.ResponseWriter, r *http.Request) bool { // some stores repeat the request in their errors
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("<Error><Code>No</Code><Message>" + r.URL.String() + "</Message></Error>"))
			return true
		},
		func(w http.ResponseWriter, _ *http.Request) bool {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return true
		},
	} {
		b.meet = meet
		err := b.once().Fetch(t.Context(), b.url+"/in/f", t.TempDir(), "f", nil)
		if err == nil || strings.Contains(err.Error(), "signature") || strings.Contains(err.Error(), "expires") {
			t.Errorf("%v", err)
		}
	}
}

// stale returns an expired grant at the first request for each object. The client cannot detect that by itself,
// because clocks differ.
type stale struct {
	stage.Grants
	mu   sync.Mutex
	seen map[string]bool
}

func (s *stale) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants, err := s.Grants.Sign(ctx, wants...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range grants {
		if w := wants[i]; !s.seen[string(w.Op)+w.URI+w.Upload] {
			s.seen[string(w.Op)+w.URI+w.Upload] = true
			grants[i].URL = strings.Replace(grants[i].URL, "expires=", "expires=1", 1)
		}
	}
	return grants, err
}

func TestExpiredGrantIsRenewed(t *testing.T) {
	b := newBucket(t, nil)
	tr := b.parted()
	tr.Grants = &stale{Grants: b, seen: map[string]bool{}}
	want := tree{"large": random(manyParts), "small": "s"}
	if _, err := tr.Upload(t.Context(), b.at("p"), newDir(t, want), stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	dst := t.TempDir()
	if _, err := tr.Download(t.Context(), b.at("p"), dst); err != nil || read(t, dst)["large"] != want["large"] {
		t.Error(err)
	}
}

// A file of many ranges is read with several requests, and each range must be written to its offset.
func TestRequestsGetSeveralRangesOfLongFile(t *testing.T) {
	const ranges = 33
	var content strings.Builder
	for i := range ranges {
		content.WriteString(strings.Repeat(string(rune('a'+i%26)), grant.MinPart-1) + "\n")
	}
	content.WriteString("the end")
	b := newBucket(t, nil)
	b.put("in/long", content.String())
	dir := t.TempDir()
	if err := b.parted().Fetch(t.Context(), b.url+"/in/", dir, ".", nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "long"))
	if err != nil || string(got) != content.String() {
		t.Fatalf("%d bytes of %d, %v", len(got), content.Len(), err)
	}
	asked := slices.DeleteFunc(b.asked("GET"), func(key string) bool { return key != "in/long" })
	if len(asked) > ranges/2+2 {
		t.Errorf("%d requests for %d ranges", len(asked), ranges+1)
	}
}
