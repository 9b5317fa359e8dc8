package bolt

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// open opens a file whose deferred changes wait for an hour, so that only the tests trigger them.
func open(t testing.TB, path string, o Options) *File {
	t.Helper()
	o.NoSync = true
	if o.DeferDelay == 0 {
		o.DeferDelay = time.Hour
	}
	f, err := OpenFile(path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return f
}

func fresh(t testing.TB, o Options) *File {
	t.Helper()
	f := open(t, filepath.Join(t.TempDir(), "file.db"), o)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

func puts(kv ...string) func(*Tx) error {
	return func(tx *Tx) error {
		for i := 0; i < len(kv); i += 2 {
			tx.Put([]byte(kv[i]), []byte(kv[i+1]))
		}
		return nil
	}
}

func deletes(keys ...string) func(*Tx) error {
	return func(tx *Tx) error {
		for _, k := range keys {
			tx.Delete([]byte(k))
		}
		return nil
	}
}

func mustCommit(t testing.TB, f *File, change func(*Tx) error) {
	t.Helper()
	if err := f.Commit(t.Context(), change); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// contents returns all keys and values, as key, value, key, value.
func contents(t testing.TB, f *File) []string {
	t.Helper()
	var all []string
	err := f.View(func(tx *Tx) error {
		for key, value := range tx.Scan(nil, nil) {
			all = append(all, string(key), string(value))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return all
}

func wantContents(t testing.TB, f *File, want ...string) {
	t.Helper()
	if got := contents(t, f); !slices.Equal(got, want) {
		t.Fatalf("the file holds %q, want %q", got, want)
	}
}

// hold keeps the committer busy, so that the tasks that are queued meanwhile become one group. release lets the
// committer continue.
func hold(t testing.TB, f *File) (release func()) {
	t.Helper()
	begun, gate := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- f.Commit(t.Context(), func(*Tx) error {
			close(begun)
			<-gate
			return nil
		})
	}()
	<-begun
	return func() {
		t.Helper()
		close(gate)
		if err := <-done; err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
}

// awaitQueued waits until n tasks are queued for the committer.
func awaitQueued(f *File, n int) {
	for {
		f.queue.mu.Lock()
		queued := len(f.queue.tasks)
		f.queue.mu.Unlock()
		if queued >= n {
			return
		}
		runtime.Gosched()
	}
}

// crash ends the use of a file as if its process was killed: deferred changes are lost, and the lock is released.
func crash(t testing.TB, f *File) {
	t.Helper()
	f.closing.Do(func() {
		f.queue.mu.Lock()
		f.queue.tasks, f.queue.deferred = nil, 0
		f.queue.mu.Unlock()
		f.queue.close()
		<-f.ended
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
}
