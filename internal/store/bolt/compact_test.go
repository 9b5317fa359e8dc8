package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// filled returns a file with many large values, most of which are deleted, and an empty value.
func filled(t *testing.T) *File {
	f := fresh(t, Options{})
	value := strings.Repeat("x", 10_000)
	for i := range 40 {
		mustCommit(t, f, func(tx *Tx) error {
			for k := range 20 {
				tx.Put(fmt.Appendf(nil, "k%d.%d", i, k), []byte(value))
			}
			return nil
		})
	}
	mustCommit(t, f, puts("kept", "value", "empty", ""))
	for i := range 40 {
		mustCommit(t, f, func(tx *Tx) error {
			for k := range 20 {
				tx.Delete(fmt.Appendf(nil, "k%d.%d", i, k))
			}
			return nil
		})
	}
	return f
}

func get(t *testing.T, f *File, key string) (value []byte) {
	t.Helper()
	if err := f.View(func(tx *Tx) error { value = bytes.Clone(tx.Get([]byte(key))); return nil }); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestCompactShrinksFile(t *testing.T) {
	f := filled(t)
	number := f.Next()
	if s, err := f.Compact(t.Context(), 1<<30); err != nil || s != (Sizes{}) {
		t.Errorf("with less unused than asked for: %+v, %v", s, err)
	}
	s, err := f.Compact(t.Context(), 1<<20)
	if err != nil || s.Before < 8_000_000 || s.After > 1<<20 {
		t.Fatalf("Compact = %+v, %v", s, err)
	}
	t.Logf("%d bytes before, %d after", s.Before, s.After)
	if info, err := os.Stat(f.Path()); err != nil || info.Size() != s.After {
		t.Errorf("the file has %v bytes, %v", info.Size(), err)
	}
	if got := get(t, f, "kept"); string(got) != "value" {
		t.Errorf("kept = %q", got)
	}
	if got := get(t, f, "empty"); got == nil || len(got) > 0 {
		t.Errorf("empty = %q", got)
	}
	if n := f.Next(); n <= number {
		t.Errorf("Next = %d after %d", n, number)
	}
	mustCommit(t, f, puts("later", "1"))
	if _, err := OpenFile(f.Path(), Options{NoSync: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("another Open: %v, want ErrLocked", err)
	}
	path := f.Path()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, Options{})
	defer again.Close()
	if get(t, again, "later") == nil || get(t, again, "kept") == nil {
		t.Error("the compacted file lost something")
	}
}

// While a file is compacted, commits must not be lost, and reads must see every commit.
func TestCompactDuringCommits(t *testing.T) {
	f := filled(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var commits [4]atomic.Int64
	for w := range commits {
		wg.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("w%d.%d", w, i)
				if err := f.Commit(context.Background(), puts(key, "1")); err != nil {
					t.Error(err)
					return
				}
				if get(t, f, key) == nil {
					t.Errorf("%s is not there", key)
				}
				commits[w].Store(int64(i))
			}
		})
	}
	for range 3 {
		if _, err := f.Compact(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	for w := range commits {
		for i := range commits[w].Load() {
			if key := fmt.Sprintf("w%d.%d", w, i+1); get(t, f, key) == nil {
				t.Fatalf("%s was lost", key)
			}
		}
	}
}

// Compact crashes. The old file must be complete. At most an incomplete copy may remain, which the next Compact
// replaces.
func TestCompactAfterCrash(t *testing.T) {
	f := filled(t)
	if err := os.WriteFile(f.Path()+".compact", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Compact(t.Context(), 0); err != nil || s.After == 0 {
		t.Errorf("Compact = %+v, %v", s, err)
	}
	if got := get(t, f, "kept"); string(got) != "value" {
		t.Errorf("kept = %q", got)
	}
}

func TestFailedCompactKeepsFile(t *testing.T) {
	f := filled(t)
	if err := os.MkdirAll(filepath.Join(f.Path()+".compact", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Compact(t.Context(), 0); err == nil || s != (Sizes{}) {
		t.Errorf("Compact = %+v, %v", s, err)
	}
	mustCommit(t, f, puts("later", "1"))
	if get(t, f, "kept") == nil || get(t, f, "later") == nil {
		t.Error("the file lost something")
	}
}

func TestWriteToCopiesLastCommit(t *testing.T) {
	f := fresh(t, Options{})
	mustCommit(t, f, puts("a", "1"))
	path := filepath.Join(t.TempDir(), "copy.db")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteTo(to, nil); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, f, puts("b", "2"))
	c := open(t, path, Options{})
	defer c.Close()
	if get(t, c, "a") == nil || get(t, c, "b") != nil {
		t.Error("the copy is not of the last commit")
	}
}
