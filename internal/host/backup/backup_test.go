package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/host/backup"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// state returns a state folder that no broker uses.
func state(t *testing.T) string {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"token": "secret token", "key": "secret key", "clock.json": "{}", "objects/job-aaaaaa/a/out/0/data": "output",
		"logs/job-aaaaaa/job-aaaaaa.0.1.rank0.log": "printed", "machines/clusters/x": "machine", "pools/lab/token": "join",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := bolt.Open(filepath.Join(dir, backup.Records), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tx := store.Tx{Writes: []store.Write{{Key: store.Key{Partition: "p", Sort: "s"}, Body: []byte("record")}}}
	if err := errors.Join(s.Commit(t.Context(), tx), s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRestoredFolderHasWhatWasCopied(t *testing.T) {
	from, file, to := state(t), filepath.Join(t.TempDir(), "b.tar.gz"), filepath.Join(t.TempDir(), "new")
	made, err := backup.Make(t.Context(), from, file, "1.2.3", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Make(t.Context(), from, file, "1.2.3", false); !errors.Is(err, backup.ErrExists) {
		t.Errorf("a second backup into the same file: %v", err)
	}
	if _, err := backup.Make(t.Context(), from, file, "1.2.3", true); err != nil {
		t.Error(err)
	}
	// The restore would end machines that are recorded there. This machine belongs to no cluster.
	if err := os.RemoveAll(filepath.Join(from, "machines")); err != nil {
		t.Fatal(err)
	}
	back, err := backup.Restore(t.Context(), file, to)
	if err != nil {
		t.Fatal(err)
	}
	if back.Files != made.Files || back.Bytes != made.Bytes || back.Version != "1.2.3" || back.State != from {
		t.Errorf("restored %+v of %+v", back, made)
	}
	for name, want := range map[string]string{"key": "secret key", "objects/job-aaaaaa/a/out/0/data": "output",
		"logs/job-aaaaaa/job-aaaaaa.0.1.rank0.log": "printed"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"token", "machines", "pools"} {
		if _, err := os.Stat(filepath.Join(to, name)); err == nil {
			t.Errorf("the backup has %s", name)
		}
	}
	s, err := bolt.Open(filepath.Join(to, backup.Records), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Get(t.Context(), store.Key{Partition: "p", Sort: "s"}); err != nil || len(r) != 1 || string(r[0].Body) != "record" {
		t.Errorf("the record is %v, %v", r, err)
	}
}

// edited returns a backup in which edit has changed the content of entries.
func edited(t *testing.T, packed []byte, edit func(name string, body []byte) []byte) []byte {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	r, w := tar.NewReader(in), tar.NewWriter(z)
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		body, rerr := io.ReadAll(r)
		if err = errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if body = edit(head.Name, body); body == nil {
			continue
		}
		head.Size = int64(len(body))
		if err := w.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDamagedBackupMakesNoFolder(t *testing.T) {
	from, file := state(t), filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := backup.Make(t.Context(), from, file, "1.2.3", false); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	drop := func(which string) func(string, []byte) []byte {
		return func(name string, body []byte) []byte {
			if name == which {
				return nil
			}
			return body
		}
	}
	change := func(which string, from, to string) func(string, []byte) []byte {
		return func(name string, body []byte) []byte {
			if name == which {
				return bytes.ReplaceAll(body, []byte(from), []byte(to))
			}
			return body
		}
	}
	for what, bad := range map[string][]byte{
		"cut":               good[:len(good)/2],
		"last bytes cut":    good[:len(good)-4],
		"no backup":         []byte("something else"),
		"without records":   edited(t, good, drop(backup.Records)),
		"without checksums": edited(t, good, drop("checksums.json")),
		"changed":           edited(t, good, change("key", "secret", "public")),
		"newer":             edited(t, good, change("manifest.json", `"format": 1`, `"format": 9`)),
	} {
		folder := t.TempDir()
		path, to := filepath.Join(folder, "bad"), filepath.Join(folder, "new")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Restore(t.Context(), path, to); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, %v", what, left, err)
		}
	}
}
