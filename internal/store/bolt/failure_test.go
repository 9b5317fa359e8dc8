package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	berrors "go.etcd.io/bbolt/errors"
)

func TestFullDiskLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	f := open(t, path, Options{maxBytes: 6 << 20})
	var want []string
	var err error
	for i := 0; err == nil; i++ {
		if i > 5000 {
			t.Fatal("the file never filled up")
		}
		k := fmt.Sprintf("%06d", i)
		if err = f.Commit(t.Context(), puts(k, strings.Repeat("x", 4000))); err == nil {
			want = append(want, k, strings.Repeat("x", 4000))
		}
	}
	if !errors.Is(err, berrors.ErrMaxSizeReached) || errors.Is(err, ErrFailed) {
		t.Fatalf("Commit = %v, want ErrMaxSizeReached and not ErrFailed", err)
	}
	wantContents(t, f, want...)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, Options{}) // now with room on the disk
	defer f.Close()
	wantContents(t, f, want...)
	mustCommit(t, f, puts("1", ""))
}

func TestDeferredChangeIsRetriedAfterFullDisk(t *testing.T) {
	f := fresh(t, Options{maxBytes: 6 << 20})
	release := hold(t, f)
	if err := f.Defer(puts("k", "earlier"), nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.Commit(t.Context(), puts("bulk", string(make([]byte, 8<<20)))) }()
	awaitQueued(f, 2)
	release()
	if err := <-done; !errors.Is(err, berrors.ErrMaxSizeReached) {
		t.Fatalf("Commit = %v", err)
	}
	mustCommit(t, f, puts("k", "later")) // the retried change must not overwrite this one
	wantContents(t, f, "k", "later")
}

func TestCommitFailureBeforeLastPageWritesNothing(t *testing.T) {
	f := fresh(t, Options{})
	mustCommit(t, f, puts("before", ""))
	if err := f.checkFailedCommit(1<<30, errOwn); !errors.Is(err, errOwn) || errors.Is(err, ErrFailed) {
		t.Errorf("examine = %v", err)
	}
	mustCommit(t, f, puts("after", ""))
	wantContents(t, f, "after", "", "before", "")
}

func TestCommitFailureAtLastPageDisablesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	f := open(t, path, Options{})
	mustCommit(t, f, puts("before", ""))
	if err := f.checkFailedCommit(0, errOwn); !errors.Is(err, ErrFailed) || !errors.Is(err, errOwn) {
		t.Fatalf("examine = %v, want ErrFailed", err)
	}
	for name, err := range map[string]error{
		"Commit": f.Commit(t.Context(), puts("later", "")), "Defer": f.Defer(puts("later", ""), nil), "Flush": f.Flush(t.Context()),
	} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("%s = %v, want ErrFailed", name, err)
		}
	}
	wantContents(t, f, "before", "") // reads still work
	if err := f.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close = %v, want ErrFailed", err)
	}
	f = open(t, path, Options{})
	defer f.Close()
	mustCommit(t, f, puts("later", ""))
	wantContents(t, f, "before", "", "later", "")
}

func TestCrashKeepsCommittedChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	for i := range 4 {
		f := open(t, path, Options{})
		for j := range 10 * i {
			mustCommit(t, f, puts(fmt.Sprintf("%d/%03d", i, j), strings.Repeat("x", 100)))
		}
		if err := f.Defer(puts("deferred", "may be lost"), nil); err != nil {
			t.Fatal(err)
		}
		crash(t, f)
	}
	f := open(t, path, Options{})
	defer f.Close()
	n := 0
	for i := range 4 {
		n += 10 * i
	}
	if got := len(contents(t, f)) / 2; got != n {
		t.Errorf("%d keys, want %d", got, n)
	}
}
