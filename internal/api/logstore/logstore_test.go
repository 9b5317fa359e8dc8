package logstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
)

func open(t *testing.T, max int64) *logstore.Store {
	t.Helper()
	s, err := logstore.New(t.TempDir(), max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// all reads a log to its end.
func all(t interface{ Fatal(...any) }, s *logstore.Store, log api.Log) string {
	var out []byte
	buf := make([]byte, 7)
	for {
		n, err := s.Read(context.Background(), log, int64(len(out)), buf)
		out = append(out, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return string(out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendIsIdempotent(t *testing.T) {
	s := open(t, 0)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		log := api.Log{Job: "j", Attempt: fmt.Sprint("j.0.", n)}
		want := rapid.StringN(1, 200, 400).Draw(t, "text")
		for sent := 0; sent < len(want); {
			from := rapid.IntRange(0, len(want)).Draw(t, "from")
			to := rapid.IntRange(from, len(want)).Draw(t, "to")
			err := s.Append(context.Background(), log, int64(from), []byte(want[from:to]))
			var offset *api.OffsetError
			switch {
			case from == sent && err == nil:
				sent = to
			case from != sent && errors.As(err, &offset) && errors.Is(err, api.ErrLogOffset):
				if offset.Want != int64(sent) {
					t.Fatalf("the store wants %d next, but %d bytes were sent", offset.Want, sent)
				}
				if err := s.Append(context.Background(), log, offset.Want, []byte(want[sent:])); err != nil {
					t.Fatal(err)
				}
				sent = len(want)
			default:
				t.Fatalf("append at %d of %d: %v", from, sent, err)
			}
		}
		if got := all(t, s, log); got != want {
			t.Fatalf("log = %q, want %q", got, want)
		}
	})
}

func TestLogIsTruncatedWithNotice(t *testing.T) {
	s := open(t, 10)
	log := api.Log{Job: "j", Attempt: "j.0.1"}
	send := func(offset int64, text string) error {
		return s.Append(context.Background(), log, offset, []byte(text))
	}
	for _, err := range []error{send(0, "0123456"), send(7, "789abc"), send(13, "lost"), send(1<<40, "lost")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := all(t, s, log)
	if !strings.HasPrefix(got, "0123456789\n") || !strings.Contains(got, "dropped") || strings.Contains(got, "lost") || strings.Contains(got, "abc") {
		t.Errorf("log = %q", got)
	}
	size, err := s.Size(context.Background(), log)
	if err != nil || size != int64(len(got)) {
		t.Errorf("size = %d, %v", size, err)
	}
	// The store returns the end of the stored log, where a restarted agent continues.
	var offset *api.OffsetError
	if err := send(0, "0123456"); !errors.As(err, &offset) || offset.Want != 10 {
		t.Errorf("append at 0: %v", err)
	}
}

func TestLogAtLimitIsNotTruncated(t *testing.T) {
	s := open(t, 10)
	log := api.Log{Job: "j", Attempt: "j.0.1"}
	if err := s.Append(context.Background(), log, 0, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if got := all(t, s, log); got != "0123456789" {
		t.Errorf("log = %q", got)
	}
}

func TestRejectsNamesOutsideFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := logstore.New(filepath.Join(dir, "logs"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test is over
	for _, log := range []api.Log{
		{Job: "..", Attempt: "a"}, {Job: "j", Attempt: "../a"}, {Job: "", Attempt: "a"}, {Job: "j", Attempt: ""}, {Job: "/etc", Attempt: "a"},
		{Job: "j", Attempt: "a/b"}, {Job: "j", Attempt: `a\b`}, {Job: "j", Attempt: "a\x00"}, {Job: "j", Attempt: ".a"}, {Job: "j", Attempt: "a", Rank: -1},
		{Job: strings.Repeat("j", 500), Attempt: "a"}, {Job: "j:k", Attempt: "a"},
	} {
		if err := s.Append(context.Background(), log, 0, []byte("x")); !errors.Is(err, api.ErrNoLog) {
			t.Errorf("%+v: %v", log, err)
		}
		if _, err := s.Size(context.Background(), log); !errors.Is(err, api.ErrNoLog) {
			t.Errorf("%+v: %v", log, err)
		}
		if _, err := s.Read(context.Background(), log, 0, make([]byte, 1)); !errors.Is(err, api.ErrNoLog) {
			t.Errorf("%+v: %v", log, err)
		}
	}
	// The store must not follow a link that points out of its folder.
	if err := os.Symlink(dir, filepath.Join(dir, "logs", "link")); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(context.Background(), api.Log{Job: "link", Attempt: "a"}, 0, []byte("x")); err == nil {
		t.Error("a link led out of the folder")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("something was written outside: %v", left)
	}
}

func TestLogsPersistAndAreRemoved(t *testing.T) {
	dir := t.TempDir()
	log := api.Log{Job: "j", Attempt: "j.0.1", Rank: 3}
	for i := range 2 {
		s, err := logstore.New(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(context.Background(), log, int64(3*i), []byte("abc")); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if got := all(t, s, log); got != "abcabc" {
				t.Errorf("log = %q", got)
			}
			for _, job := range []string{"j", "j", "../j", ""} {
				if err := s.Remove(job); err != nil {
					t.Errorf("remove %q: %v", job, err)
				}
			}
			if _, err := s.Size(context.Background(), log); !errors.Is(err, api.ErrNoLog) {
				t.Errorf("after removal: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendWakesWaiters(t *testing.T) {
	s := open(t, 0)
	log := api.Log{Job: "j", Attempt: "j.0.1"}
	const readers, pieces = 4, 50
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for offset := int64(0); offset < pieces; {
				if err := s.Wait(t.Context(), log, offset); err != nil {
					t.Error(err)
					return
				}
				n, err := s.Read(t.Context(), log, offset, make([]byte, 8))
				if err != nil && !errors.Is(err, io.EOF) {
					t.Error(err)
					return
				}
				offset += int64(n)
			}
		})
	}
	for i := range pieces {
		if err := s.Append(t.Context(), log, int64(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, log, pieces); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without an append: %v", err)
	}
}
