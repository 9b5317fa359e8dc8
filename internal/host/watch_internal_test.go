package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
)

// TestLateEventKeepsRemark: the broker's answer about a file arrives after the file's content has changed. The error
// file must still be about the new content.
func TestLateEventKeepsRemark(t *testing.T) {
	f := &folder{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), told: map[string]*told{}}
	remark := func() string {
		said, _ := os.ReadFile(filepath.Join(f.dir, "a.yaml.error.txt"))
		return string(said)
	}
	rejected := func(reason string) {
		if err := f.rejected(events.DAGRejected{Bucket: f.bucketURL(), Key: "a.yaml", Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	accepted := func(digest string) {
		f.accepted(t.Context(), events.ObjectCreated{Bucket: f.bucketURL(), Key: "a.yaml", ETag: digest})
	}
	f.isNew("a.yaml", "1")
	f.isNew("a.yaml", "2")
	rejected("2 is bad")
	if accepted("1"); remark() != "2 is bad\n" {
		t.Errorf("the remark about what is there is %q", remark())
	}
	f.isNew("a.yaml", "3")
	accepted("3")
	if rejected("2 is bad"); remark() != "" {
		t.Errorf("next to an accepted file is %q", remark())
	}
}

// An event is about earlier content of a file. It must be ignored, because the current content has its own event.
func TestEventOfEarlierContentIsMissing(t *testing.T) {
	f := &folder{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), told: map[string]*told{}}
	var news []events.ObjectCreated
	f.emit = func(_ context.Context, _ string, data events.Data) error {
		news = append(news, data.(events.ObjectCreated)) //nolint:forcetypeassert // a folder tells of nothing else
		return nil
	}
	for _, content := range []string{"the first", "the second"} {
		if err := os.WriteFile(filepath.Join(f.dir, "a.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.submit(t.Context(), "a.yaml", int64(len(content))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.Open(t.Context(), news[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first content was written over, and is read: %v", err)
	}
	file, _, err := f.Open(t.Context(), news[1])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	if got, err := io.ReadAll(file); err != nil || string(got) != "the second" {
		t.Errorf("%q, %v", got, err)
	}
}

// A file could not be reported to the broker because the disk was full for a moment. The report must be retried.
// Otherwise the file would wait until another file arrives.
func TestRetriesFileReport(t *testing.T) {
	f := &folder{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), told: map[string]*told{}}
	full, heard := true, 0
	f.emit = func(context.Context, string, events.Data) error {
		if full {
			return errors.New("no space left on device")
		}
		heard++
		return nil
	}
	path := filepath.Join(f.dir, "a.yaml")
	if err := os.WriteFile(path, []byte("name: a"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if !f.scan(t.Context()) {
		t.Error("it is not looked at again")
	}
	full = false
	if f.scan(t.Context()) || heard != 1 {
		t.Errorf("the broker got %d events, or gets another", heard)
	}
}

func TestShellScriptIsJobIfItHasBatchLines(t *testing.T) {
	var logged bytes.Buffer
	f := &folder{dir: t.TempDir(), log: slog.New(slog.NewTextHandler(&logged, nil)), told: map[string]*told{}}
	var reported []string
	f.emit = func(_ context.Context, _ string, e events.Data) error {
		reported = append(reported, e.(events.ObjectCreated).Key)
		return nil
	}
	long := time.Now().Add(-time.Minute)
	for name, text := range map[string]string{"job.sh": "#!/bin/sh\n#SBATCH -n 1\ntrue\n", "tool.sh": "#!/bin/sh\ntrue\n"} {
		path := filepath.Join(f.dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	f.scan(t.Context())
	f.scan(t.Context())
	if len(reported) != 1 || reported[0] != "job.sh" {
		t.Errorf("reported %q", reported)
	}
	if said := logged.String(); strings.Count(said, "has no #SBATCH lines") != 1 || !strings.Contains(said, "tool.sh") {
		t.Error(said)
	}
}
