package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWriteSyncsBeforeAndAfterRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	var done []string
	d := disk{
		sync: func(f *os.File) error {
			info, err := f.Stat()
			if err == nil && info.IsDir() {
				done = append(done, "sync folder")
			} else {
				done = append(done, "sync file")
			}
			return errors.Join(err, f.Sync())
		},
		rename: func(from, to string) error { done = append(done, "rename"); return os.Rename(from, to) },
	}
	if err := d.fill(path, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"sync file", "rename", "sync folder"}; !slices.Equal(done, want) {
		t.Errorf("%v, not %v", done, want)
	}
}

func TestFillReplacesFileOrLeavesIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kept")
	if err := Write(path, 0o640, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := Fill(path, 0o600, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	body, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(body) != "old" || info.Mode().Perm() != 0o640 {
		t.Errorf("%s %v %v %v", body, info.Mode(), err, statErr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestOnlyThisPackageReplacesFiles checks that no other package renames files. A rename without a sync could lose
// data after a power cut that were reported as stored.
func TestOnlyThisPackageReplacesFiles(t *testing.T) {
	// Exceptions: staging compares files with the manifest after a restart, and stages wrong ones again, so it need
	// not sync thousands of small files. A downloaded program is identified by its digest, and downloaded again if
	// damaged.
	allowed := []string{"internal/base/files/atomicfile.go", "internal/agent/stage/arrive.go", "internal/agent/stage/transfer.go", "internal/agent/mount/program.go"}
	root := "../../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(allowed, filepath.ToSlash(name)) {
			return nil
		}
		body, err := os.ReadFile(path)
		if strings.Contains(string(body), ".Rename(") {
			t.Errorf("%s renames files itself", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFillIn checks that FillIn leaves either the whole new file or the old one, leaves nothing else, and does not
// follow links out of the root.
func TestFillIn(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() }) //nolint:errcheck // only read
	write := func(body string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, body); return err }
	}
	if err := FillIn(root, "temp", "a/b/file", 0o640, write("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := FillIn(root, "temp", "a/b/file", 0o640, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	body, err := os.ReadFile(filepath.Join(dir, "a/b/file"))
	if left, listErr := os.ReadDir(dir); string(body) != "old" || len(left) != 1 || err != nil || listErr != nil {
		t.Errorf("%s, %v, %v, left behind %v", body, err, listErr, left)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := FillIn(root, "temp", "out/file", 0o640, write("new")); err == nil {
		t.Error("a link led out of the root")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
}
