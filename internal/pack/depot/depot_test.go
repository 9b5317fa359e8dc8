package depot_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// house is a depot in a folder that is served over HTTP, as by a host.
type house struct {
	*depot.Depot
	shelf depot.Folder
	dir   string
	now   time.Time
	puts  atomic.Int64
	fail  func() int // returns the status of the next put
}

func open(t *testing.T) *house {
	t.Helper()
	h := &house{dir: t.TempDir(), now: time.Now()}
	var files *filegrant.Store
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.puts.Add(1)
		if h.fail != nil {
			if status := h.fail(); status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var err error
	if files, err = filegrant.New(h.dir, filegrant.Options{BaseURL: server.URL + "/objects"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	h.shelf = depot.Folder{Root: root}
	h.Depot = &depot.Depot{Store: h.shelf, Sign: files, URI: "file://" + h.dir, Now: func() time.Time { return h.now }}
	return h
}

func folder(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func bring(t *testing.T, h *house, dir string) string {
	t.Helper()
	tree, err := (&localfiles.Sender{Asker: h}).Bring(t.Context(), dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree.URI()
}

// age makes all objects in the depot older.
func (h *house) age(t *testing.T, by time.Duration) {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(h.dir, "packs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		p := filepath.Join(h.dir, "packs", d.Name())
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, time.Time{}, info.ModTime().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExistingPiecesAreNotSentAgain(t *testing.T) {
	h := open(t)
	dir := folder(t, "print(1)")
	uri := bring(t, h, dir)
	if n := h.puts.Load(); n != 2 { // one piece and the list
		t.Errorf("%d requests", n)
	}
	if err := h.Check(t.Context(), uri, uri); err != nil {
		t.Error(err)
	}
	if again := bring(t, h, dir); again != uri || h.puts.Load() != 2 {
		t.Errorf("%s, %d requests", again, h.puts.Load())
	}
	if err := os.Chmod(filepath.Join(dir, "main.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	if bring(t, h, dir) == uri || h.puts.Load() != 3 {
		t.Errorf("%d requests after a change of a mode, which only changes the list", h.puts.Load())
	}
}

func TestCheckRejectsIncompletePack(t *testing.T) {
	h := open(t)
	uri := bring(t, h, folder(t, "print(1)"))
	missing := pack.DigestOf([]byte("print(1)"))
	if err := os.Remove(filepath.Join(h.dir, "packs", string(missing))); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context(), uri); !errors.Is(err, pack.ErrIncomplete) {
		t.Errorf("without a piece: %v", err)
	}
	none := pack.URI{Digest: pack.DigestOf([]byte("none")), Name: "x"}.String()
	if err := h.Check(t.Context(), none); !errors.Is(err, pack.ErrIncomplete) {
		t.Errorf("without a list: %v", err)
	}
	if err := h.Check(t.Context(), "pack://x/y"); !errors.Is(err, pack.ErrURI) {
		t.Errorf("not a URI: %v", err)
	}
}

// TestDepotAcceptsOnlyMatchingContent: a piece is accepted only if its content and its length match its name.
func TestDepotAcceptsOnlyMatchingContent(t *testing.T) {
	h := open(t)
	up, err := h.Missing(t.Context(), []pack.Piece{{Digest: pack.DigestOf([]byte("good")), Size: 4}})
	if err != nil || len(up) != 1 {
		t.Fatal(up, err)
	}
	for _, body := range []string{"evil", "good and more", "goo"} {
		req, err := up[0].Grant.Request(t.Context(), bytes.NewReader([]byte(body)), int64(len(body)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if _, _, err := h.Stat(t.Context(), up[0].Digest); res.StatusCode < 400 || err == nil {
			t.Errorf("%q was answered with %s", body, res.Status)
		}
	}
	for _, p := range []pack.Piece{{Digest: "../../etc/passwd", Size: 1}, {Digest: up[0].Digest}, {}} {
		if _, err := h.Missing(t.Context(), []pack.Piece{p}); !errors.Is(err, depot.ErrAsk) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := h.Missing(t.Context(), make([]pack.Piece, apitypes.MaxAsk+1)); !errors.Is(err, depot.ErrAsk) {
		t.Error(err)
	}
}

// TestStayKeepsPacksOfOpenJobs simulates a job that waits for a year, with a call of Stay each day. Meanwhile, users
// submit the same code now and then. The job's pack must be kept.
func TestStayKeepsPacksOfOpenJobs(t *testing.T) {
	h := open(t)
	dir := folder(t, "print(1)")
	uri := bring(t, h, dir)
	unused := bring(t, h, folder(t, "print(2)"))
	for day := range 365 {
		h.age(t, 24*time.Hour)
		if day%50 == 0 {
			if bring(t, h, dir) != uri {
				t.Fatal("another pack")
			}
		}
		if err := h.Stay(t.Context(), uri); err != nil {
			t.Fatalf("day %d: %v", day, err)
		}
		if err := h.shelf.Sweep(h.now); err != nil {
			t.Fatal(err)
		}
		if err := unpack(t, h, uri); err != nil {
			t.Fatalf("day %d: %v", day, err)
		}
	}
	if err := h.Check(t.Context(), unused); !errors.Is(err, pack.ErrIncomplete) {
		t.Errorf("a pack that no job needs still exists: %v", err)
	}
}

func unpack(t *testing.T, h *house, uri string) error {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l, err := pack.ReadList(t.Context(), h, digest(t, uri))
	if err != nil {
		return err
	}
	return pack.Unpack(t.Context(), h, l, root, ".")
}

func digest(t *testing.T, uri string) pack.Digest {
	t.Helper()
	u, err := pack.ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return u.Digest
}

// TestOldPiecesAreSentAgain: pieces that are in the depot but old must be sent again. Otherwise they could be removed
// before Stay knows the new job.
func TestOldPiecesAreSentAgain(t *testing.T) {
	h := open(t)
	dir := folder(t, "print(1)")
	uri := bring(t, h, dir)
	h.age(t, depot.Keep/4+time.Hour)
	bring(t, h, dir)
	if n := h.puts.Load(); n != 4 {
		t.Errorf("%d requests", n)
	}
	h.age(t, depot.Keep/2+time.Hour)
	if err := h.Check(t.Context(), uri); !errors.Is(err, pack.ErrIncomplete) {
		t.Errorf("a pack that will soon expire was accepted: %v", err)
	}
}

func TestTemporaryUploadFailureIsRetried(t *testing.T) {
	h := open(t)
	var n atomic.Int64
	h.fail = func() int {
		if n.Add(1) == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	if err := h.Check(t.Context(), bring(t, h, folder(t, "print(1)"))); err != nil {
		t.Error(err)
	}
	h.fail = func() int { return http.StatusForbidden }
	before := h.puts.Load()
	if _, err := (&localfiles.Sender{Asker: h}).Bring(t.Context(), folder(t, "x"), pack.Options{}); err == nil {
		t.Error("a refused upload counted as sent")
	}
	if n := h.puts.Load() - before; n != 1 {
		t.Errorf("a refused upload was tried %d times", n)
	}
}

func TestFolderChangedDuringSendIsPackedAgain(t *testing.T) {
	h := open(t)
	dir := folder(t, "print(1)")
	times := 0
	ask := asker(func(ctx context.Context, p []pack.Piece) ([]apitypes.Lack, error) {
		if times++; times == 1 {
			if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte("print(22)"), 0o600); err != nil {
				t.Error(err)
			}
		}
		return h.Missing(ctx, p)
	})
	tree, err := (&localfiles.Sender{Asker: ask}).Bring(t.Context(), dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context(), tree.URI()); err != nil {
		t.Error(err)
	}
	if _, _, err := h.Stat(t.Context(), pack.DigestOf([]byte("print(22)"))); err != nil {
		t.Error(err)
	}
}

type asker func(context.Context, []pack.Piece) ([]apitypes.Lack, error)

func (a asker) Missing(ctx context.Context, p []pack.Piece) ([]apitypes.Lack, error) {
	return a(ctx, p)
}
