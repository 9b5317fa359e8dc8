package flock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/flock"
)

// An exclusive lock excludes others until its file is closed, and shared locks do not exclude each other.
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
	try := func(f *os.File, mode flock.Mode, want bool) {
		t.Helper()
		if taken, err := flock.Try(f, mode); err != nil || taken != want {
			t.Fatalf("taken %v, %v; want %v", taken, err, want)
		}
	}
	owner, reader, second := open(), open(), open()
	try(owner, flock.Exclusive, true)
	try(reader, flock.Shared, false)
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	try(reader, flock.Shared, true)
	try(second, flock.Shared, true)
	try(open(), flock.Exclusive, false)
	closed := open()
	_ = closed.Close()
	if _, err := flock.Try(closed, flock.Exclusive); err == nil {
		t.Error("a closed file is locked")
	}
}
