package stage_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// tree is a directory as a map from path to content. "-> target" is a link, and "/" an empty directory.
type tree map[string]string

func (want tree) write(t testing.TB, dir string) {
	t.Helper()
	for p, content := range want {
		full := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch target, link := strings.CutPrefix(content, "-> "); {
		case content == "/":
			err = os.MkdirAll(full, 0o755)
		case link:
			err = os.Symlink(target, full)
		default:
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, dir string) tree {
	t.Helper()
	got := tree{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			if below, _ := os.ReadDir(p); len(below) == 0 {
				got[rel] = "/"
			}
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			got[rel] = "-> " + target
		default:
			b, err := os.ReadFile(p)
			got[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func newDir(t testing.TB, content tree) string {
	t.Helper()
	dir := t.TempDir()
	content.write(t, dir)
	return dir
}

func upload(t testing.TB, b *bucket, prefix, dir string) *stage.Manifest {
	t.Helper()
	m, err := b.once().Upload(context.Background(), b.at(prefix), dir, stage.Scan{}, stage.Manifest{Attempt: "a", Rank: 1, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUploadDownloadRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[a-c. _é]{1,4}`).Filter(func(s string) bool { return filepath.IsLocal(s) && s != "." && path.Clean(s) == s })
	rapid.Check(t, func(rt *rapid.T) {
		want := tree{}
		for _, p := range rapid.SliceOfN(rapid.SliceOfN(name, 1, 3), 0, 8).Draw(rt, "paths") {
			full := path.Join(p...)
			if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(q string) bool {
				return full == q || strings.HasPrefix(full, q+"/") || strings.HasPrefix(q, full+"/")
			}) {
				want[full] = rapid.OneOf(rapid.Just("/"), rapid.Just("-> a"), rapid.StringN(0, 50, 200)).Draw(rt, "content")
			}
		}
		src, dst := t.TempDir(), t.TempDir()
		want.write(t, src)
		b := newBucket(t, nil)
		m := upload(t, b, "p/q", src)
		got, err := b.once().Download(context.Background(), b.at("p/q"), filepath.Join(dst, "made"))
		if err != nil {
			rt.Fatal(err)
		}
		if tree := read(t, filepath.Join(dst, "made")); !maps.Equal(tree, want) {
			rt.Fatalf("it is %q, was %q", tree, want)
		}
		if got.Attempt != "a" || got.Rank != 1 || got.Nodes != 2 || !reflect.DeepEqual(got.Files, m.Files) {
			rt.Fatalf("manifest %+v", got)
		}
	})
}

func TestModesArePreserved(t *testing.T) {
	dir := newDir(t, tree{"run.sh": "#!/bin/sh", "secret": "x"})
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "secret": 0o400} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	b, dst := newBucket(t, nil), t.TempDir()
	upload(t, b, "p", dir)
	if _, err := b.once().Download(t.Context(), b.at("p"), dst); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "secret": 0o400} {
		if info, err := os.Stat(filepath.Join(dst, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestDirectoryWithoutManifestIsIncomplete(t *testing.T) {
	b := newBucket(t, nil)
	upload(t, b, "p", newDir(t, tree{"f": "1"}))
	b.remove("p/manifest.json")
	dst := t.TempDir()
	if _, err := b.once().Download(t.Context(), b.at("p"), dst); !errors.Is(err, stage.ErrIncomplete) {
		t.Errorf("%v", err)
	}
	if got := read(t, dst); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestDamageIsDetected(t *testing.T) {
	for name, damage := range map[string]func(*bucket){
		"a byte":            func(b *bucket) { b.put("p/files/f", "two") },
		"shorter":           func(b *bucket) { b.put("p/files/f", "on") },
		"longer":            func(b *bucket) { b.put("p/files/f", "one more") },
		"gone":              func(b *bucket) { b.remove("p/files/f") },
		"manifest is none":  func(b *bucket) { b.put("p/manifest.json", "{") },
		"manifest is newer": func(b *bucket) { b.put("p/manifest.json", `{"version":4}`) },
	} {
		b, dst := newBucket(t, nil), t.TempDir()
		upload(t, b, "p", newDir(t, tree{"f": "one"}))
		damage(b)
		if _, err := b.once().Download(t.Context(), b.at("p"), dst); !errors.Is(err, stage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, dst); len(got) != 0 {
			t.Errorf("%s: left %v", name, got)
		}
	}
}

// manifest writes a manifest of one file, whose content is "x".
func manifest(t *testing.T, b *bucket, files ...stage.File) {
	t.Helper()
	const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	for i := range files {
		if files[i].Link == "" && !files[i].Dir {
			files[i].Size, files[i].SHA256 = 1, sumOfX
		}
	}
	body, err := json.Marshal(stage.Manifest{Version: 1, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	b.put("p/manifest.json", string(body))
}

func TestManifestCannotLeaveDirectory(t *testing.T) {
	for name, files := range map[string][]stage.File{
		"parent":               {{Path: "../x"}},
		"parent, hidden":       {{Path: "a/../../x"}},
		"absolute":             {{Path: "/etc/x"}},
		"untidy":               {{Path: "a//b"}},
		"itself":               {{Path: "."}},
		"empty":                {{Path: ""}},
		"nul":                  {{Path: "a\x00b"}},
		"link to parent":       {{Path: "l", Link: ".."}},
		"absolute link":        {{Path: "l", Link: "/etc"}},
		"link up after down":   {{Path: "d/l", Link: "e/../../../x"}},
		"file through a link":  {{Path: "l", Link: "d"}, {Path: "l/x"}},
		"link through a link":  {{Path: "l", Link: "."}, {Path: "l/m", Link: "../x"}},
		"directory of parents": {{Path: "../d", Dir: true}},
	} {
		outer := t.TempDir()
		b := newBucket(t, nil)
		manifest(t, b, files...)
		for _, f := range files {
			if filepath.IsLocal(f.Path) && !strings.ContainsRune(f.Path, 0) && f.Link == "" && f.Path != "." {
				b.put("p/files/"+f.Path, "x")
			}
		}
		if _, err := b.once().Download(t.Context(), b.at("p"), filepath.Join(outer, "in")); !errors.Is(err, stage.ErrLeaves) {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, outer); len(got) != 0 {
			t.Errorf("%s: wrote %v", name, got)
		}
	}
}

func TestExistingLinksCannotRedirectFiles(t *testing.T) {
	// The directory itself (for example a work directory that was staged before) contains a link that points out of
	// it.
	outer := newDir(t, tree{"in/l": "-> ../out", "out": "/"})
	b := newBucket(t, map[string]string{"p/files/l/x": "x"})
	manifest(t, b, stage.File{Path: "l/x"})
	if _, err := b.once().Download(t.Context(), b.at("p"), filepath.Join(outer, "in")); err == nil {
		t.Error("downloaded through a link that leads out")
	}
	if got := read(t, outer); got["out"] != "/" {
		t.Errorf("%v", got)
	}
}

func TestUploadRejectsLinksOutsideDirectory(t *testing.T) {
	for _, target := range []string{"/etc/passwd", "../x", "d/../../x"} {
		dir := newDir(t, tree{"d/f": "1", "l": "-> " + target})
		b := newBucket(t, nil)
		_, err := b.once().Upload(t.Context(), b.at("p"), dir, stage.Scan{}, stage.Manifest{})
		if !errors.Is(err, stage.ErrLeaves) {
			t.Errorf("%s: %v", target, err)
		}
		var notes []string
		_, err = b.once().Upload(t.Context(), b.at("p"), dir, stage.Scan{Note: func(s string) { notes = append(notes, s) }}, stage.Manifest{})
		if err != nil || len(notes) != 1 || len(b.objects()) != 2 {
			t.Errorf("%s: %v, notes %v, objects %v", target, err, notes, b.objects())
		}
	}
}

func TestFetchCopiesLikeCp(t *testing.T) {
	content := map[string]string{"data/a.txt": "a", "data/sub/b.txt": "b", "database": "no"}
	src := newDir(t, tree{"data/a.txt": "a", "data/sub/b.txt": "b", "data/l": "-> sub/b.txt", "data/out": "-> /etc/passwd"})
	for _, tc := range []struct {
		uri, dst string
		before   tree
		want     tree
	}{
		{"store:/data/a.txt", "x", nil, tree{"x": "a"}},
		{"store:/data/a.txt", "x/y.txt", nil, tree{"x/y.txt": "a"}},
		{"store:/data/a.txt", "x/", nil, tree{"x/a.txt": "a"}},
		{"store:/data/a.txt", "x", tree{"x/old": "o"}, tree{"x/old": "o", "x/a.txt": "a"}},
		{"store:/data/a.txt", ".", nil, tree{"a.txt": "a"}},
		{"store:/data/a.txt", "x", tree{"x": "old"}, tree{"x": "a"}},
		{"store:/data", "x", nil, tree{"x/a.txt": "a", "x/sub/b.txt": "b"}},
		{"store:/data/", ".", nil, tree{"a.txt": "a", "sub/b.txt": "b"}},
		{"store:", "x", nil, tree{"x/data/a.txt": "a", "x/data/sub/b.txt": "b", "x/database": "no"}},
		{src + "/data/a.txt", "x", nil, tree{"x": "a"}},
		{"file://" + src + "/data/a.txt", "x/", nil, tree{"x/a.txt": "a"}},
		{"file://" + src + "/data", "x", nil, tree{"x/a.txt": "a", "x/sub/b.txt": "b", "x/l": "-> sub/b.txt"}},
		{src + "/data/", ".", nil, tree{"a.txt": "a", "sub/b.txt": "b", "l": "-> sub/b.txt"}},
	} {
		dir, b := newDir(t, tc.before), newBucket(t, content)
		uri := strings.Replace(tc.uri, "store:", b.url, 1)
		if uri == b.url {
			uri += "/"
		}
		if err := b.once().Fetch(t.Context(), uri, dir, tc.dst, nil); err != nil {
			t.Errorf("%s to %s: %v", tc.uri, tc.dst, err)
		}
		if got := read(t, dir); !maps.Equal(got, tc.want) {
			t.Errorf("%s to %s: %q, want %q", tc.uri, tc.dst, got, tc.want)
		}
	}
}

func TestFetchReportsMissing(t *testing.T) {
	b := newBucket(t, nil)
	for _, uri := range []string{b.url + "/none", b.url + "/none/", "/no/such/file", "file:///no/such/file"} {
		if err := b.once().Fetch(t.Context(), uri, t.TempDir(), "x", nil); !errors.Is(err, stage.ErrNotFound) || !strings.Contains(err.Error(), uri) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if err := b.once().Fetch(t.Context(), "/dev/null", t.TempDir(), "x", nil); err == nil {
		t.Error("fetched a device")
	}
}

func TestFetchCannotLeaveDirectory(t *testing.T) {
	for _, dst := range []string{"../x", "/x", "a/../../x", ".."} {
		outer := newDir(t, tree{"in": "/", "out": "/"})
		b := newBucket(t, map[string]string{"k": "v"})
		err := b.once().Fetch(t.Context(), b.url+"/k", filepath.Join(outer, "in"), dst, nil)
		if !errors.Is(err, stage.ErrLeaves) {
			t.Errorf("to %q: %v", dst, err)
		}
	}
	outer := newDir(t, tree{"in/l": "-> ../out", "out": "/"})
	b := newBucket(t, map[string]string{"k": "v"})
	if err := b.once().Fetch(t.Context(), b.url+"/k", filepath.Join(outer, "in"), "l/x", nil); err == nil {
		t.Error("fetched through a link that leads out")
	}
}

// lying is a store whose lists contain objects outside of the prefix.
type lying struct {
	stage.Grants
	uri string
}

func (l lying) List(context.Context, string, string) (grant.Page, error) {
	return grant.Page{Objects: []grant.Listed{{URI: l.uri, Size: 1}}}, nil
}

func TestListingCannotLeaveDirectory(t *testing.T) {
	b := newBucket(t, map[string]string{"other/x": "x"})
	for _, uri := range []string{b.url + "/other/x", b.url + "/p/../other/x", b.url + "/p//x", "x"} {
		outer := newDir(t, tree{"in": "/"})
		tr := b.once()
		tr.Grants = lying{b, uri}
		if err := tr.Fetch(t.Context(), b.url+"/p/", filepath.Join(outer, "in"), "x", nil); err == nil {
			t.Errorf("%s was fetched", uri)
		}
		if got := read(t, outer); len(got) != 1 {
			t.Errorf("%s: wrote %v", uri, got)
		}
	}
}

func TestPutCopiesFiles(t *testing.T) {
	dir := newDir(t, tree{"f": "1", "d/g": "2", "d/l": "-> g", "d/e": "/"})
	for _, tc := range []struct {
		src, to string
		want    tree
	}{
		{"f", "x", tree{"x": "1"}},
		{"f", "x/", tree{"x/f": "1"}},
		{"d", "x", tree{"x/g": "2", "x/l": "2"}},
		{".", "x", tree{"x/f": "1", "x/d/g": "2", "x/d/l": "2"}},
	} {
		b := newBucket(t, nil)
		for where, store := range map[string]string{"the store": b.url, "this machine": ""} {
			b.log = nil
			tr, dst := b.once(), b.dir
			if tr.Store = store; store == "" {
				dst = t.TempDir()
			}
			if err := tr.Put(t.Context(), dir, tc.src, "file://"+dst+"/"+tc.to); err != nil {
				t.Errorf("%s to %s: %v", tc.src, where, err)
			}
			got := read(t, dst)
			delete(got, ".uploads/tmp")
			if sent := len(b.asked("PUT")); !maps.Equal(got, tc.want) || (sent > 0) != (store != "") {
				t.Errorf("%s to %s of %s: %q, want %q", tc.src, tc.to, where, got, tc.want)
			}
		}
	}
	b := newBucket(t, nil)
	if err := b.once().Put(t.Context(), dir, "none", b.url+"/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// settle makes files so old that a snapshot can trust their times.
func settle(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Chtimes(p, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotLeavesOutUnfinishedFiles(t *testing.T) {
	src := newDir(t, tree{"a": "1", "d/b": "2", "d/b.tmp": "half", "l": "-> a", "e": "/"})
	settle(t, src)
	dst := newDir(t, tree{"left": "over"})
	print, err := stage.Snapshot(t.Context(), src, dst, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, dst), (tree{"a": "1", "d/b": "2", "l": "-> a", "e": "/"}); !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	again, err := stage.Fingerprint(t.Context(), src, nil)
	if err != nil || again != print {
		t.Errorf("fingerprints %s and %s, %v", print, again, err)
	}
	if err := os.WriteFile(filepath.Join(src, "a"), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, _ := stage.Fingerprint(t.Context(), src, nil); changed == print {
		t.Error("the same fingerprint after a change")
	}
	if empty, err := stage.Fingerprint(t.Context(), t.TempDir(), nil); empty != "" || err != nil {
		t.Errorf("of an empty directory: %q, %v", empty, err)
	}
}

func TestSnapshotIsConsistent(t *testing.T) {
	// A writer keeps two files equal by writing one after the other. No snapshot may contain different files, unless
	// the writer itself was delayed for so long that no snapshot could detect it.
	src := newDir(t, tree{"a": "0", "b": "0"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var heldUp sync.Map // keyed by the written number
	go func() {
		defer close(done)
		for n := 1; ctx.Err() == nil; n++ {
			began := time.Now()
			for _, name := range []string{"a", "b"} {
				part := filepath.Join(src, name+".tmp")
				if os.WriteFile(part, []byte(strconv.Itoa(n)), 0o600) != nil || os.Rename(part, filepath.Join(src, name)) != nil {
					t.Error("cannot write")
				}
			}
			if time.Since(began) > 10*time.Millisecond {
				heldUp.Store(strconv.Itoa(n), true)
			}
			if n%50 == 0 { // pauses now and then
				select {
				case <-ctx.Done():
				case <-time.After(60 * time.Millisecond):
				}
			}
		}
	}()
	var copies []tree
	for range 3 {
		dst := filepath.Join(t.TempDir(), "snap")
		if _, err := stage.Snapshot(t.Context(), src, dst, nil); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, read(t, dst))
	}
	cancel()
	<-done
	for _, got := range copies {
		if _, held := heldUp.Load(got["a"]); !held && got["a"] != got["b"] || len(got) != 2 {
			t.Errorf("torn: %v", got)
		}
	}
}

func TestSnapshotDistrustsFileChangedDuringListing(t *testing.T) {
	// The file may change again before the second listing, within the same tick of the file system's clock.
	src := newDir(t, tree{"a": "-> /elsewhere", "b/c": "0"})
	time.Sleep(30 * time.Millisecond) // c is old
	listings := 0
	note := func(string) { // this link points out of the directory, and is listed before c
		if listings++; listings == 1 {
			time.Sleep(30 * time.Millisecond) // certainly after the listing began
			tree{"b/c": "1"}.write(t, src)
		}
	}
	if _, err := stage.Snapshot(t.Context(), src, filepath.Join(t.TempDir(), "snap"), note); err != nil {
		t.Fatal(err)
	}
	if listings < 4 {
		t.Errorf("a snapshot after %d listings", listings)
	}
}

func TestSnapshotFailsWhileDirectoryChanges(t *testing.T) {
	src := t.TempDir()
	for range 1000 { // until a snapshot reads the file before it is old enough to be trusted
		if err := os.WriteFile(filepath.Join(src, "log"), []byte("line"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := stage.Snapshot(ctx, src, filepath.Join(t.TempDir(), "snap"), nil)
		cancel()
		if errors.Is(err, stage.ErrChanging) && strings.Contains(err.Error(), "log") {
			return
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	t.Error("a file that was just changed was accepted")
}
