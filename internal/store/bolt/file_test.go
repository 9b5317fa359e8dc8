package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestReadersSeeCommittedChanges(t *testing.T) {
	f := fresh(t, Options{})
	mustCommit(t, f, puts("b", "1", "a", "1", "c", ""))
	wantContents(t, f, "a", "1", "b", "1", "c", "")
	mustCommit(t, f, puts("b", "2"))
	mustCommit(t, f, deletes("a", "none"))
	wantContents(t, f, "b", "2", "c", "")
	if err := f.View(func(tx *Tx) error {
		if v := tx.Get([]byte("c")); v == nil || len(v) != 0 {
			t.Errorf("Get of an empty value = %v", v)
		}
		if v := tx.Get([]byte("a")); v != nil {
			t.Errorf("Get of a deleted key = %q", v)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestGroupCommitsInOrderWithOneDiskWait(t *testing.T) {
	f := fresh(t, Options{})
	mustCommit(t, f, puts("n", "x"))
	before := f.Stats()
	release := hold(t, f)
	const changes = 50
	var wg sync.WaitGroup
	for i := range changes {
		wg.Go(func() {
			if err := f.Commit(t.Context(), func(tx *Tx) error {
				// sees the earlier changes of its group
				tx.Put([]byte("n"), append(slices.Clone(tx.Get([]byte("n"))), 'x'))
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		awaitQueued(f, i+1)
	}
	release()
	wg.Wait()
	wantContents(t, f, "n", strings.Repeat("x", changes+1))
	if groups := f.Stats().Groups - before.Groups; groups != 1 {
		t.Errorf("%d changes waited for the disk %d times, want 1", changes, groups)
	}
}

func TestFailedChangeDoesNotAffectOthers(t *testing.T) {
	f := fresh(t, Options{})
	release := hold(t, f)
	results := make([]chan error, 0, 5)
	for i, change := range []func(*Tx) error{
		puts("a", "1"),
		func(tx *Tx) error {
			tx.Put([]byte("a"), []byte("wrong"))
			tx.Delete([]byte("a"))
			return errOwn
		},
		puts("b", "2"),
		puts("c", "3", "", "empty key"),
		puts("d", "4", strings.Repeat("k", MaxKeyBytes+1), "key too long"),
	} {
		done := make(chan error, 1)
		go func() { done <- f.Commit(t.Context(), change) }()
		awaitQueued(f, i+1)
		results = append(results, done)
	}
	release()
	for i, want := range []bool{false, true, false, true, true} {
		if err := <-results[i]; (err != nil) != want || i == 1 && !errors.Is(err, errOwn) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	wantContents(t, f, "a", "1", "b", "2")
}

func TestReadersNeitherWaitForNorSeeUnfinishedChanges(t *testing.T) {
	f := fresh(t, Options{})
	mustCommit(t, f, puts("k", "old"))
	begun, gate := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- f.Commit(t.Context(), func(tx *Tx) error {
			tx.Put([]byte("k"), []byte("new"))
			close(begun)
			<-gate
			return nil
		})
	}()
	<-begun
	wantContents(t, f, "k", "old") // a read that waited would hang
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantContents(t, f, "k", "new")
}

func TestCancelledChangeIsNotMade(t *testing.T) {
	f := fresh(t, Options{})
	release := hold(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Commit(ctx, puts("k", "v")) }()
	awaitQueued(f, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) { // while the committer is busy
		t.Fatalf("Commit = %v", err)
	}
	release()
	mustCommit(t, f, puts("other", ""))
	wantContents(t, f, "other", "")
}

func TestCommitWaitsForBegunChangeDespiteCancel(t *testing.T) {
	f := fresh(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := f.Commit(ctx, func(tx *Tx) error {
		cancel()
		tx.Put([]byte("k"), []byte("v"))
		return nil
	})
	if err != nil {
		t.Fatalf("Commit = %v, but the change was made", err)
	}
	wantContents(t, f, "k", "v")
}

func TestDeferredChangesJoinNextGroupInOrder(t *testing.T) {
	f := fresh(t, Options{})
	before := f.Stats()
	var told []string
	for i := range 3 {
		name := fmt.Sprint(i)
		if err := f.Defer(puts("deferred", name, name, ""), func() { told = append(told, name) }); err != nil {
			t.Fatal(err)
		}
	}
	wantContents(t, f)
	mustCommit(t, f, puts("2", "by Commit"))
	wantContents(t, f, "0", "", "1", "", "2", "by Commit", "deferred", "2")
	if !slices.Equal(told, []string{"0", "1", "2"}) {
		t.Errorf("committed called for %q", told)
	}
	if groups := f.Stats().Groups - before.Groups; groups != 1 {
		t.Errorf("%d waits for the disk, want 1", groups)
	}
}

func TestFlushAndCloseCommitDeferredChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	f := open(t, path, Options{})
	if err := f.Defer(puts("a", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantContents(t, f, "a", "1")
	groups := f.Stats().Groups
	if err := f.Flush(t.Context()); err != nil || f.Stats().Groups != groups {
		t.Errorf("Flush without changes = %v, or it waited for the disk", err)
	}
	if err := f.Defer(puts("b", "2"), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, Options{})
	defer f.Close()
	wantContents(t, f, "a", "1", "b", "2")
}

func TestDeferredChangesAreCommittedAfterDelay(t *testing.T) {
	f := fresh(t, Options{DeferDelay: 1}) // one nanosecond
	made := make(chan struct{})
	if err := f.Defer(puts("a", "1"), func() { close(made) }); err != nil {
		t.Fatal(err)
	}
	<-made
	wantContents(t, f, "a", "1")
}

func TestDeferWaitsWhenTooManyAreDeferred(t *testing.T) {
	f := fresh(t, Options{})
	for range maxDeferred {
		if err := f.Defer(puts("k", "deferred"), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantContents(t, f)
	if err := f.Defer(puts("k", "waited for"), nil); err != nil {
		t.Fatal(err)
	}
	wantContents(t, f, "k", "waited for")
}

func TestSecondOpenIsLockedOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	f := open(t, path, Options{})
	_, err := OpenFile(path, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("Open of an open file = %v", err)
	}
	mustCommit(t, f, puts("still", "usable"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path, Options{})
	defer f.Close()
	wantContents(t, f, "still", "usable")
}

func TestFilesArePrivateToOwner(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file.db")
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // the test needs too wide a mode
		t.Fatal(err)
	}
	f := open(t, path, Options{})
	mustCommit(t, f, puts("k", "v"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("%d files while it is open: %v", len(entries), entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s has mode %o", e.Name(), mode)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if entries, err = os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "file.db" {
		t.Errorf("after Close: %v, %v", entries, err)
	}
}

func TestEverythingFailsAfterClose(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "file.db"), Options{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Commit": f.Commit(t.Context(), puts("k", "v")),
		"Defer":  f.Defer(puts("k", "v"), nil),
		"Flush":  f.Flush(t.Context()),
		"View":   f.View(func(*Tx) error { return nil }),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close = %v", name, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestNumbersGrowAcrossReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	last := uint64(0)
	for range 5 {
		f := open(t, path, Options{})
		for range 3 {
			n := f.Next()
			if n <= last {
				t.Fatalf("number %d after %d", n, last)
			}
			last = n
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRejectsForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"text": strings.Repeat("this is not a database\n", 1000), "short": "x", "zeros": string(make([]byte, 1<<16)),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path, Options{})
		if err == nil {
			t.Errorf("%s: Open succeeded", name)
			f.Close()
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s: Open changed it", name)
		}
	}
	if _, err := OpenFile(dir, Options{}); err == nil {
		t.Error("Open of a folder succeeded")
	}
	if _, err := OpenFile(filepath.Join(dir, "none", "file.db"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open in a missing folder = %v", err)
	}
}

func TestOpenRejectsDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	f := open(t, path, Options{})
	for i := range 1000 {
		mustCommit(t, f, puts(fmt.Sprintf("%06d", i*7919%1000), strings.Repeat("x", 1000)))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 100, 4096, 8192, 16384, 1 << 18, 1 << 20} {
		cut := filepath.Join(t.TempDir(), "cut.db")
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := OpenFile(cut, Options{NoSync: true}); err == nil {
			t.Errorf("truncated to %d of %d bytes: Open succeeded", size, len(whole))
			f.Close()
		}
	}
	f = open(t, path, Options{})
	defer f.Close()
	if n := len(contents(t, f)) / 2; n != 1000 {
		t.Errorf("%d keys, want 1000", n)
	}
}

func TestScan(t *testing.T) {
	f := fresh(t, Options{})
	for _, k := range []string{"b1", "b3", "a", "c", "b", "b2", "b\xff"} {
		mustCommit(t, f, puts(k, k))
	}
	mustCommit(t, f, deletes("b2"))
	for _, c := range []struct {
		prefix, from string
		want         []string
	}{
		{"b", "", []string{"b", "b1", "b3", "b\xff"}},
		{"b", "b1", []string{"b1", "b3", "b\xff"}},
		{"b", "b2", []string{"b3", "b\xff"}},
		{"b", "c", nil},
		{"b1", "", []string{"b1"}},
		{"d", "", nil},
		{"", "b\xff", []string{"b\xff", "c"}},
	} {
		var got []string
		if err := f.View(func(tx *Tx) error {
			for key, value := range tx.Scan([]byte(c.prefix), []byte(c.from)) {
				if string(key) != string(value) {
					t.Errorf("%q has value %q", key, value)
				}
				got = append(got, string(key))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Scan(%q, %q) = %q, want %q", c.prefix, c.from, got, c.want)
		}
	}
}
