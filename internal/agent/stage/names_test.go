package stage_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Names that are not UTF-8 cannot be written to a manifest: they would change, and two could become the same.
// An upload of such a file must fail, and a snapshot must omit the file and report that.
func TestInvalidUTF8NamesAreNotChanged(t *testing.T) {
	many := tree{"f": "1", "d/\xff": "2", "d/\xfe": "3"} // enough files for a bundle
	for i := range 20 {
		many["d/\xff"+strings.Repeat("x", i+1)] = "4"
	}
	for name, dir := range map[string]tree{
		"many files": many, "files": {"f": "1", "a\xff": "2", "a\xfe": "3"}, "a folder": {"f": "1", "d\xff/g": "2"},
		"a link": {"f": "1", "l": "-> \xff"}, "an empty folder": {"f": "1", "d\xff": "/"},
	} {
		src, b := newDir(t, dir), newBucket(t, nil)
		_, err := b.once().Upload(t.Context(), b.at("p"), src, stage.Scan{}, stage.Manifest{})
		if !errors.Is(err, stage.ErrName) || !strings.Contains(err.Error(), `\xf`) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.once().Put(t.Context(), src, ".", b.at("plain")); !errors.Is(err, stage.ErrName) {
			t.Errorf("%s, plainly: %v", name, err)
		}
		settle(t, src)
		snap, notes := t.TempDir(), 0
		_, err = stage.Snapshot(t.Context(), src, snap, func(string) { notes++ })
		if got := read(t, snap); err != nil || notes == 0 || !maps.Equal(got, tree{"f": "1"}) {
			t.Errorf("%s in a snapshot: %q, %d notes, %v", name, got, notes, err)
		}
	}
	// Between two folders of this machine, any name is valid.
	want, dst := tree{"a\xff": "1", "a\xfe": "2"}, t.TempDir()
	src := newDir(t, want)
	if err := (stage.Transfer{}).Put(t.Context(), src, ".", "file://"+dst+"/put"); err != nil {
		t.Error(err)
	}
	if err := (stage.Transfer{}).Fetch(t.Context(), src, dst, "fetched", nil); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"put", "fetched"} {
		if got := read(t, filepath.Join(dst, name)); !maps.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Small files in bundles may have names that no object can have. Other files with such names are stored under a hash.
func TestInvalidObjectNamesAreKept(t *testing.T) {
	large := strings.Repeat("x", 600<<10) // too large for a bundle
	want := tree{`a\b`: "1", "line\nbreak": large, "%2e/f": "2", `d/c:\x`: large, strings.Repeat("long/", 300) + "f": "3"}
	src, b, dst := newDir(t, want), newBucket(t, nil), t.TempDir()
	upload(t, b, "p", src)
	if _, err := b.once().Download(t.Context(), b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("%d files of %d, %v", len(read(t, dst)), len(want), err)
	}
	// In a user's bucket, names must be valid object names.
	err := b.once().Put(t.Context(), newDir(t, tree{`a\b`: "1"}), ".", b.at("plain"))
	if !errors.Is(err, grant.ErrURI) || !strings.Contains(err.Error(), "a backslash") {
		t.Error(err)
	}
}

func TestManifestRejectsDuplicatePath(t *testing.T) {
	b, dst := newBucket(t, map[string]string{"p/files/f": "x"}), t.TempDir()
	manifest(t, b, stage.File{Path: "f"}, stage.File{Path: "f"})
	if _, err := b.once().Download(t.Context(), b.at("p"), dst); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("%v, %q", err, read(t, dst))
	}
}

// Links into the folder are kept in any form. A snapshot omits links that point out of it.
func TestUploadKeepsAbsoluteLinks(t *testing.T) {
	src := newDir(t, tree{"d/f": "1"})
	called := filepath.Join(t.TempDir(), "called")
	tree{"called": "-> " + src}.write(t, filepath.Dir(called))
	tree{"a": "-> " + src + "/d/f", "d/b": "-> " + src + "/d/f", "d/up": "-> " + src}.write(t, src)
	want := tree{"d/f": "1", "a": "-> d/f", "d/b": "-> ../d/f", "d/up": "-> .."}
	b, dst := newBucket(t, nil), t.TempDir()
	upload(t, b, "p", src)
	if _, err := b.once().Download(t.Context(), b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("%q, %v", read(t, dst), err)
	}
	tree{"out": "-> /etc/passwd", "above": "-> ../x", "d/c": "-> " + called + "/d/f"}.write(t, src)
	want["d/c"] = "-> ../d/f"
	settle(t, src)
	var notes []string
	note := func(s string) { notes = append(notes, s) }
	snap := t.TempDir()
	print, err := stage.Snapshot(t.Context(), called, snap, note)
	if got := read(t, snap); err != nil || !maps.Equal(got, want) {
		t.Errorf("a snapshot has %q, %v", got, err)
	}
	left := []string{"left out above: a link that leaves the directory", "left out out: a link that leaves the directory"}
	if slices.Sort(notes); !slices.Equal(slices.Compact(notes), left) {
		t.Errorf("notes %q", notes)
	}
	if again, err := stage.Fingerprint(t.Context(), called, note); err != nil || again != print {
		t.Errorf("fingerprint %q, then %q, %v", print, again, err)
	}
}

// Stores have no links, so a link is uploaded as a copy of its target. This includes absolute links.
func TestPutFollowsAbsoluteLinks(t *testing.T) {
	src := newDir(t, tree{"d/f": "1"})
	tree{"d/l": "-> " + src + "/d/f"}.write(t, src)
	for _, store := range []string{"", "store"} {
		b := newBucket(t, nil)
		tr := b.once()
		if store == "" {
			tr.Store = ""
		}
		if err := tr.Put(t.Context(), src, "d", b.url+"/x"); err != nil {
			t.Fatal(err)
		}
		if got := read(t, b.dir); got["x/f"] != "1" || got["x/l"] != "1" {
			t.Errorf("%q", got)
		}
	}
}

func TestPipeIsNotAnOutput(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBucket(t, nil)
	for _, store := range []string{"", b.url} {
		tr := b.once()
		tr.Store = store
		err := tr.Put(t.Context(), dir, "pipe", b.url+"/x") // opening a pipe would block for ever
		if err == nil || !strings.Contains(err.Error(), "neither a file nor a directory") {
			t.Errorf("%v", err)
		}
	}
}

// A file name may have 255 bytes. The name of the temporary file must not be longer.
func TestLongestNamesArePreserved(t *testing.T) {
	long := strings.Repeat("n", 254)
	want := tree{"d/" + long + "1": random(manyParts), "d/" + long + "2": random(grant.MinPart), long: "small"}
	src, b, dst := newDir(t, want), newBucket(t, nil), t.TempDir()
	if _, err := b.parted().Upload(t.Context(), b.at("p"), src, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("%d files, %v", len(read(t, dst)), err)
	}
	settle(t, src)
	snap := t.TempDir()
	if _, err := stage.Snapshot(t.Context(), src, snap, nil); err != nil || !maps.Equal(read(t, snap), want) {
		t.Errorf("a snapshot has %d files, %v", len(read(t, snap)), err)
	}
}

// looks is a context that counts how often it is checked.
type looks struct {
	context.Context
	n int
}

func (l *looks) Err() error {
	l.n++
	return l.Context.Err()
}

// A snapshot of a large file must be cancellable in the middle of the file.
func TestSnapshotChecksContextWithinFile(t *testing.T) {
	asked := func(size int64) int {
		src := newDir(t, tree{"f": ""})
		if err := os.Truncate(filepath.Join(src, "f"), size); err != nil {
			t.Fatal(err)
		}
		settle(t, src)
		l := &looks{Context: t.Context()}
		if _, err := stage.Snapshot(l, src, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		return l.n
	}
	if small, large := asked(1), asked(64<<20); large < small+4 {
		t.Errorf("%d checks for a byte, %d for 64 MiB", small, large)
	}
}
