package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// An exclusive lock must exclude others until its file is closed. Shared locks must not exclude each other.
func TestLockBelongsToOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in the test's folder
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	try := func(f *os.File, mode files.Mode, want bool) {
		t.Helper()
		if taken, err := files.Try(f, mode); err != nil || taken != want {
			t.Fatalf("taken %v, %v; want %v", taken, err, want)
		}
	}
	owner, reader, second := open(), open(), open()
	try(owner, files.Exclusive, true)
	try(reader, files.Shared, false)
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	try(reader, files.Shared, true)
	try(second, files.Shared, true)
	try(open(), files.Exclusive, false)
	closed := open()
	_ = closed.Close()
	if _, err := files.Try(closed, files.Exclusive); err == nil {
		t.Error("a closed file is locked")
	}
}
