package pack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/pack"
)

// shelf is a source in memory.
type shelf struct {
	mu   sync.Mutex
	held map[pack.Digest][]byte
}

func (s *shelf) Get(_ context.Context, d pack.Digest) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.held[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

// put adds the missing pieces of a tree. It returns their number and their total size.
func (s *shelf) put(t testing.TB, tree *pack.Tree) (pieces int, size int64) {
	t.Helper()
	if s.held == nil {
		s.held = map[pack.Digest][]byte{}
	}
	for _, p := range tree.Pieces() {
		if s.held[p.Digest] != nil {
			continue
		}
		body, err := tree.Content(p)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(body)) != p.Size || pack.DigestOf(body) != p.Digest {
			t.Fatalf("piece %s has %d bytes of %s", p.Digest, len(body), pack.DigestOf(body))
		}
		s.held[p.Digest] = body
		pieces, size = pieces+1, size+p.Size
	}
	return pieces, size
}

func packed(t testing.TB, dir string) *pack.Tree {
	t.Helper()
	tree, err := pack.Pack(t.Context(), dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func digest(t testing.TB, tree *pack.Tree) pack.Digest {
	t.Helper()
	u, err := pack.ParseURI(tree.URI())
	if err != nil {
		t.Fatal(err)
	}
	return u.Digest
}

// unpacked unpacks a pack to the name "to" in a new folder.
func unpacked(t testing.TB, s *shelf, d pack.Digest, dir string) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l, err := pack.ReadList(t.Context(), s, d)
	if err != nil {
		return err
	}
	return pack.Unpack(t.Context(), s, l, root, "to")
}

// put writes a file in a folder.
func put(t testing.TB, dir, name, content string, mode fs.FileMode) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		t.Fatal(err)
	}
}

// look returns the content of a folder: for each path, the mode and the content or link target.
func look(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		content := ""
		switch {
		case info.Mode().IsRegular():
			body, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(body)
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(p)
		}
		got[rel] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func noise(seed uint64, n int) string {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return string(b)
}

// TestPackUnpackRoundTrip packs and unpacks random folders. Contents, modes, links and empty folders must be equal.
func TestPackUnpackRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		in := filepath.Join(dir, "in")
		name := rapid.SampledFrom([]string{"a", "b", "ä b", "-", "a-", ".x", "#", "z"})
		folders := []string{""}
		if err := os.Mkdir(in, 0o755); err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(r, "entries") {
			parent := rapid.SampledFrom(folders).Draw(r, "parent")
			p := filepath.Join(parent, name.Draw(r, "name"))
			full := filepath.Join(in, p)
			if _, err := os.Lstat(full); err == nil {
				continue
			}
			mode := fs.FileMode(rapid.SampledFrom([]int{0o644, 0o755, 0o600, 0o444, 0o777}).Draw(r, "mode"))
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				if err := os.Mkdir(full, 0o700); err != nil {
					r.Fatal(err)
				}
				folders = append(folders, p)
			case 1:
				to := rapid.SampledFrom([]string{"a", ".", "x/y", full, in}).Draw(r, "target")
				if err := os.Symlink(to, full); err != nil {
					r.Fatal(err)
				}
			default:
				size := rapid.SampledFrom([]int{0, 0, 1, 1, 100, 100, 5000, 600 << 10, 2 << 20}).Draw(r, "size")
				put(t, in, p, noise(uint64(size), size), mode)
			}
		}
		tree, err := pack.Pack(t.Context(), in, pack.Options{})
		if err != nil {
			r.Fatal(err)
		}
		defer tree.Close()
		s := &shelf{}
		s.put(t, tree)
		out := filepath.Join(dir, "out")
		if err := os.Mkdir(out, 0o755); err != nil {
			r.Fatal(err)
		}
		if err := unpacked(t, s, digest(t, tree), out); err != nil {
			r.Fatal(err)
		}
		want, got := look(t, in), look(t, filepath.Join(out, "to"))
		for p, w := range want { // absolute links into the folder become relative links
			if to, ok := strings.CutPrefix(w[strings.IndexByte(w, ' ')+1:], in); ok && strings.HasPrefix(w, "L") {
				rel, _ := filepath.Rel(filepath.Join(in, filepath.Dir(p)), in+to)
				if resolved := filepath.Join(filepath.Dir(p), got[p][strings.IndexByte(got[p], ' ')+1:]); resolved !=
					filepath.Join(filepath.Dir(p), rel) {
					r.Fatalf("link %s leads to %s, not to %s", p, resolved, rel)
				}
				delete(want, p)
				delete(got, p)
			}
		}
		if !maps.Equal(want, got) {
			r.Fatalf("packed %.2000q\nunpacked %.2000q", want, got)
		}
		again, err := pack.Pack(t.Context(), filepath.Join(out, "to"), pack.Options{})
		if err != nil {
			r.Fatal(err)
		}
		defer again.Close()
		if digest(t, again) != digest(t, tree) {
			r.Fatal("the same content has two digests")
		}
		os.RemoveAll(dir)
	})
}

// TestSecondPackSendsOnlyChanges: of 32 MiB in large and small files, one file is changed, one is added and one is
// removed. Little may be sent.
func TestSecondPackSendsOnlyChanges(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "model.bin", noise(1, 16<<20), 0o644)
	for i := range 4096 {
		put(t, dir, fmt.Sprintf("src/%02d/f%d.py", i%64, i), noise(uint64(i), 4096), 0o644)
	}
	s := &shelf{}
	first, all := s.put(t, packed(t, dir))
	if first > 40 || all < 32<<20 {
		t.Errorf("%d pieces with %d bytes", first, all)
	}
	if n, size := s.put(t, packed(t, dir)); n != 0 {
		t.Errorf("the same again sends %d pieces with %d bytes", n, size)
	}
	put(t, dir, "src/07/f7.py", "changed", 0o644)
	put(t, dir, "src/20/added.py", "new", 0o644)
	if err := os.Remove(filepath.Join(dir, "src/40/f40.py")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "model.bin"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 8<<20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	n, size := s.put(t, packed(t, dir))
	if n < 2 || n > 12 || size > 12<<20 {
		t.Errorf("four changes send %d pieces with %d bytes", n, size)
	}
	t.Logf("first %d pieces, %d bytes; four changes %d pieces, %d bytes", first, all, n, size)
}

func TestPackSingleFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "train.csv", "1,2", 0o640)
	put(t, dir, "other", "no", 0o640)
	tree := packed(t, filepath.Join(dir, "train.csv"))
	if !strings.HasSuffix(tree.URI(), "/train.csv") {
		t.Errorf("URI %s", tree.URI())
	}
	s := &shelf{}
	s.put(t, tree)
	out := t.TempDir()
	if err := unpacked(t, s, digest(t, tree), out); err != nil {
		t.Fatal(err)
	}
	if got := look(t, out); !maps.Equal(got, map[string]string{"to": "-rw-r----- 1,2"}) {
		t.Errorf("%q", got)
	}
}

// TestUnpackReplacesOnlySameNames: unpacking replaces files of the same names, even if a link has such a name, and no
// others.
func TestUnpackReplacesOnlySameNames(t *testing.T) {
	dir, out, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, dir, "a", "new", 0o644)
	put(t, dir, "d/b", "new", 0o644)
	put(t, out, "to/kept", "kept", 0o644)
	put(t, elsewhere, "precious", "precious", 0o644)
	if err := os.Symlink(filepath.Join(elsewhere, "precious"), filepath.Join(out, "to", "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(out, "to", "d")); err != nil {
		t.Fatal(err)
	}
	s := &shelf{}
	tree := packed(t, dir)
	s.put(t, tree)
	if err := unpacked(t, s, digest(t, tree), out); err != nil {
		t.Fatal(err)
	}
	if got := look(t, elsewhere); len(got) != 1 || got["precious"] != "-rw-r--r-- precious" {
		t.Errorf("elsewhere there is %q", got)
	}
	want := map[string]string{"a": "-rw-r--r-- new", "d": "drwxr-xr-x ", "d/b": "-rw-r--r-- new",
		"kept": "-rw-r--r-- kept"}
	if got := look(t, filepath.Join(out, "to")); !maps.Equal(got, want) {
		t.Errorf("there is %q", got)
	}
}

func TestUnpackChecksEveryByte(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", noise(3, 3<<20), 0o644)
	tree := packed(t, dir)
	for _, p := range tree.Pieces() {
		for name, spoil := range map[string]func([]byte) []byte{
			"another byte": func(b []byte) []byte { c := bytes.Clone(b); c[len(c)/2] ^= 1; return c },
			"cut off":      func(b []byte) []byte { return b[:len(b)-1] },
			"too long":     func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		} {
			s := &shelf{}
			s.put(t, tree)
			s.held[p.Digest] = spoil(s.held[p.Digest])
			if err := unpacked(t, s, digest(t, tree), t.TempDir()); !errors.Is(err, pack.ErrCorrupt) {
				t.Errorf("%s of %s: %v", name, p.Digest, err)
			}
			delete(s.held, p.Digest)
			if err := unpacked(t, s, digest(t, tree), t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is missing: %v", p.Digest, err)
			}
		}
	}
}

func TestScanErrorsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		says []string
	}{
		"a link out":          {func(d string) error { return os.Symlink("../secret", d+"/up") }, []string{"/up cannot be packed", "link out of", "../secret", ".tradewindignore"}},
		"an absolute link":    {func(d string) error { return os.Symlink("/etc/passwd", d+"/etc") }, []string{"/etc cannot be packed", "/etc/passwd"}},
		"a name that is none": {func(d string) error { return os.WriteFile(d+"/\xff\xfe", nil, 0o600) }, []string{`"\xff\xfe" cannot be packed`, "not UTF-8", "rename"}},
	} {
		dir := t.TempDir()
		if err := c.make(dir); err != nil {
			t.Fatal(err)
		}
		_, err := pack.Pack(t.Context(), dir, pack.Options{})
		if !errors.Is(err, pack.ErrUnpackable) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", name, err, s)
			}
		}
	}
	if _, err := pack.Pack(t.Context(), t.TempDir()+"/none", pack.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestLargeErrorListsLargestParts(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "data/raw/big.bin", strings.Repeat("x", 3000), 0o644)
	put(t, dir, "data/raw/other.bin", strings.Repeat("x", 10), 0o644)
	put(t, dir, "main.py", "x", 0o644)
	for i := range 20 {
		put(t, dir, fmt.Sprintf("cache/deep/%d", i), "", 0o644)
	}
	var large *pack.Large
	_, err := pack.Pack(t.Context(), dir, pack.Options{MaxBytes: 2000})
	if !errors.As(err, &large) || large.Most[0].Path != "data/raw/big.bin" || large.Most[0].Bytes != 3000 {
		t.Errorf("%v", err)
	}
	if !strings.Contains(err.Error(), "2.0 KiB can be packed") || !strings.Contains(large.Hint(), ".tradewindignore") {
		t.Errorf("%v\n%s", err, large.Hint())
	}
	_, err = pack.Pack(t.Context(), dir, pack.Options{MaxFiles: 10})
	if !errors.As(err, &large) || large.Most[0].Path != "cache/deep/" || large.Most[0].Files != 20 {
		t.Errorf("%v", err)
	}
	put(t, dir, ".tradewindignore", "cache/\n*.bin\n", 0o644)
	if _, err := pack.Pack(t.Context(), dir, pack.Options{MaxBytes: 2000, MaxFiles: 10}); err != nil {
		t.Error(err)
	}
}

// TestPackDetectsChangedFile: a file changes while it is read, or between reading and sending. This must be an error.
func TestPackDetectsChangedFile(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "out.log")
	put(t, dir, "big", noise(1, 9<<20), 0o644)
	put(t, dir, "out.log", "x", 0o644)
	n := 0
	grow := func(int64, int64) {
		n++
		if err := os.WriteFile(log, []byte(strings.Repeat("x", n+1)), 0o600); err != nil {
			t.Error(err)
		}
	}
	var changed *pack.Changed
	if _, err := pack.Pack(t.Context(), dir, pack.Options{Read: grow}); !errors.As(err, &changed) || changed.Path != log {
		t.Errorf("a file that keeps changing: %v", err)
	}
	once := sync.OnceFunc(func() { grow(0, 0) })
	tree, err := pack.Pack(t.Context(), dir, pack.Options{Read: func(int64, int64) { once() }})
	if err != nil {
		t.Fatalf("a file that stops changing: %v", err)
	}
	defer tree.Close()
	put(t, dir, "big", noise(2, 9<<20), 0o644)
	if _, err := tree.Content(tree.Pieces()[0]); !errors.As(err, &changed) || changed.Path != filepath.Join(dir, "big") {
		t.Errorf("a file that changed before it was sent: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "big")); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Content(tree.Pieces()[0]); !errors.As(err, &changed) {
		t.Errorf("a file that was removed: %v", err)
	}
}

func TestURIs(t *testing.T) {
	good := "pack://" + string(pack.DigestOf(nil)) + "/my%20code"
	if u, err := pack.ParseURI(good); err != nil || u.Name != "my code" || u.String() != good {
		t.Errorf("%+v %v", u, err)
	}
	for _, s := range []string{
		"", "pack://", "pack://sha256-00/x", strings.ToUpper(good), good + "/y", good + "/", "s3://b/k",
		strings.TrimSuffix(good, "my%20code") + "..", strings.TrimSuffix(good, "my%20code") + "%2e%2e",
		strings.TrimSuffix(good, "my%20code") + "a%2fb", strings.TrimSuffix(good, "/my%20code"),
	} {
		if u, err := pack.ParseURI(s); !errors.Is(err, pack.ErrURI) {
			t.Errorf("%q is %+v, %v", s, u, err)
		}
	}
}

// FuzzURI checks that parsing and formatting gives the same URI, and that its name cannot leave the folder.
func FuzzURI(f *testing.F) {
	f.Add("pack://" + string(pack.DigestOf(nil)) + "/my%20code")
	f.Add("pack://" + string(pack.DigestOf(nil)) + "/%2e%2e")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := pack.ParseURI(s)
		if err != nil {
			return
		}
		if again, err := pack.ParseURI(u.String()); err != nil || again != u || !filepath.IsLocal(u.Name) ||
			strings.ContainsAny(u.Name, "/\x00") {
			t.Fatalf("%q is %+v, and again %+v, %v", s, u, again, err)
		}
	})
}

// FuzzList checks that an accepted list can be unpacked from pieces of the right sizes, and that nothing is written
// outside of the target.
func FuzzList(f *testing.F) {
	zero := pack.DigestOf([]byte{0})
	f.Add([]byte(`{"version":1,"entries":[{"path":"a","mode":420,"size":1}],"pieces":[{"digest":"` + string(zero) + `","size":1}]}`))
	f.Add([]byte(`{"version":1,"entries":[{"path":"a","dir":true,"mode":493},{"path":"a/b","link":"../a"}],"pieces":[]}`))
	f.Add([]byte(`{"version":1,"entries":[{"path":"a","link":".."},{"path":"a/b","mode":1}],"pieces":[]}`))
	f.Add([]byte(`{"version":1,"entries":[{"path":".","mode":420,"size":1}],"pieces":[{"digest":"` + string(zero) + `","size":1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := pack.ParseList(body)
		if err != nil {
			return
		}
		var total int64
		for i := range l.Pieces {
			if total += l.Pieces[i].Size; total > 1<<20 {
				return
			}
		}
		s := &shelf{held: map[pack.Digest][]byte{}}
		for i := range l.Pieces {
			content := make([]byte, l.Pieces[i].Size)
			l.Pieces[i].Digest = pack.DigestOf(content)
			s.held[l.Pieces[i].Digest] = content
		}
		outer := t.TempDir()
		root, err := os.OpenRoot(outer)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		// Errors of the disk are allowed, for example for a name of 300 bytes. A write outside of the target is not.
		_ = pack.Unpack(t.Context(), s, l, root, "to")
		for p := range look(t, outer) {
			if p != "to" && !strings.HasPrefix(p, "to/") {
				t.Fatalf("%s lies outside", p)
			}
		}
	})
}
