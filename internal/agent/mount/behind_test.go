package mount_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// behind mounts s3://bucket/in/ with a custom upload function.
func (a account) behind(t *testing.T, wrap func(upload) upload) *place {
	t.Helper()
	if _, err := exec.LookPath("fuse-overlayfs"); err != nil && os.Geteuid() != 0 {
		t.Skip("only root can mount an overlay without fuse-overlayfs")
	}
	environ := mounttest.Environ(t)
	p := &place{t: t, dir: t.TempDir()}
	p.point = filepath.Join(p.dir, "a point")
	if err := os.Mkdir(p.point, 0o700); err != nil {
		t.Fatal(err)
	}
	send := upload(func(ctx context.Context, dir string, files []string) error {
		return stage.Transfer{Grants: a.store}.PutFiles(ctx, dir, files, "s3://bucket/in/")
	})
	if wrap != nil {
		send = wrap(send)
	}
	var err error
	p.m, err = mount.Start(t.Context(), mount.Spec{
		URI: "s3://bucket/in/", Mode: mount.Cached, Point: p.point, Dir: filepath.Join(p.dir, "own"),
		Program: mounttest.Program(t, environ), Environ: environ, Still: 30 * time.Second, Upload: send,
	}, a.lend(t, "s3://bucket/in/", true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.m.Close)
	if _, err := os.Stat(filepath.Join(p.dir, "own", "upper.work")); err != nil {
		t.Skip("this machine cannot mount an overlay")
	}
	return p
}

type upload = func(ctx context.Context, dir string, files []string) error

// do fails the test if an operation on the mounted files has failed.
func (p *place) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) at(name string) string { return filepath.Join(p.point, name) }

// A task writes to a cached mount. In the end, the bucket must have the same files.
func TestWriteBehindUploads(t *testing.T) {
	a := open3(t)
	for key, body := range map[string]string{
		"in/kept": "is kept", "in/changed": "was", "in/removed": "was", "in/moved": "has moved",
		"in/old/a": "was", "in/old/b/c": "was", "in/again/a": "was", "in/again/b": "was",
	} {
		a.put(t, key, body)
	}
	p := a.behind(t, nil)
	p.do(p.write("new/deep/file", "is new"))
	p.do(p.write("link/target", "is linked"))
	p.do(os.Symlink("target", p.at("link/to")))
	p.do(os.Symlink("/etc/hostname", p.at("away")))
	f, err := os.OpenFile(p.at("changed"), os.O_APPEND|os.O_WRONLY, 0)
	p.do(err)
	_, err = f.WriteString(" and is")
	p.do(errors.Join(err, f.Close()))
	p.do(os.Remove(p.at("removed")))
	p.do(os.Rename(p.at("moved"), p.at("new/moved")))
	p.do(os.RemoveAll(p.at("old")))
	p.do(os.RemoveAll(p.at("again")))
	p.do(p.write("again/b", "is"))
	p.do(p.write("tmp/x", "for a moment"))
	p.flush()
	p.do(os.Rename(p.at("tmp"), p.at("final"))) // tmp was already uploaded
	p.do(os.Remove(p.at("new/deep/file")))
	p.do(p.write("new/deep/other", "at last"))
	p.flush()
	if got := p.m.Unkept(); !slices.Equal(got, []string{"away"}) {
		t.Errorf("not kept: %v", got)
	}
	want := map[string]string{
		"in/kept": "is kept", "in/changed": "was and is", "in/new/moved": "has moved", "in/again/b": "is",
		"in/link/target": "is linked", "in/link/to": "is linked", "in/final/x": "for a moment",
		"in/new/deep/other": "at last",
	}
	got := a.contents(t)
	for key, body := range want {
		if got[key] != body {
			t.Errorf("%s has %q, not %q", key, got[key], body)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s is there", key)
		}
	}
	p.m.Close()
	if left := mounttest.Mounted(t, p.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if after := a.contents(t); len(after) != len(want) {
		t.Errorf("after the end: %v", after)
	}
}

func (a account) contents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, key := range a.keys(t) {
		body, err := a.c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		out[key] = readAll(t, body.Body)
	}
	return out
}

// The task must see files that others write to the bucket meanwhile. When it removes its own file, the others'
// files in the same folder must stay.
func TestForeignWritesAreVisibleAndKept(t *testing.T) {
	a := open3(t)
	a.put(t, "in/x", "was")
	p := a.behind(t, nil)
	p.do(os.MkdirAll(p.at("shared"), 0o700)) // the bucket has no such directory yet
	p.do(p.write("shared/mine", "mine"))
	p.flush()
	a.put(t, "in/shared/theirs", "theirs")
	a.put(t, "in/flag", "of another")
	until(t, "the flag is seen", func() bool {
		got, err := os.ReadFile(p.at("flag"))
		return err == nil && string(got) == "of another"
	})
	p.do(os.Remove(p.at("shared/mine")))
	p.flush()
	if got := a.keys(t); !slices.Equal(got, []string{"in/flag", "in/shared/theirs", "in/x"}) {
		t.Errorf("in the bucket: %v", got)
	}
}

// A file must appear in the bucket only when its writer has closed it. A checkpoint in between waits for open files.
func TestOpenFileIsNotUploaded(t *testing.T) {
	a := open3(t)
	p := a.behind(t, nil)
	f, err := os.Create(p.at("open"))
	p.do(err)
	_, err = f.WriteString("half")
	p.do(err)
	p.do(p.write("closed", "whole"))
	p.do(p.m.Settle(t.Context()))
	if got := a.keys(t); !slices.Equal(got, []string{"in/closed"}) {
		t.Errorf("in the bucket: %v", got)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.m.Flush(short); !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "open") {
		t.Errorf("%v", err)
	}
	_, err = f.WriteString(" and half")
	p.do(errors.Join(err, f.Close()))
	p.flush()
	if got := a.contents(t)["in/open"]; got != "half and half" {
		t.Errorf("%q", got)
	}
}

// Files are uploaded in the background while the task runs, without a flush.
func TestWriteBehindUploadsWhileTaskRuns(t *testing.T) {
	a := open3(t)
	p := a.behind(t, nil)
	p.do(p.write("a/b", "written"))
	until(t, "the file", func() bool { return a.contents(t)["in/a/b"] == "written" })
	p.do(p.write("a/b", "again!!"))
	until(t, "its change", func() bool { return a.contents(t)["in/a/b"] == "again!!" })
}

// An upload that fails for a moment is retried. If the store refuses a file, the flush must fail at once and name the
// file.
func TestFailedUploadIsRetried(t *testing.T) {
	a := open3(t)
	fails := 3
	var refused error
	p := a.behind(t, func(send upload) upload {
		return func(ctx context.Context, dir string, files []string) error {
			if fails--; fails >= 0 {
				return errors.New("the line is cut")
			}
			return errors.Join(refused, send(ctx, dir, files))
		}
	})
	p.do(p.write("x", "written"))
	p.flush()
	if got := a.contents(t)["in/x"]; got != "written" || fails > 0 {
		t.Errorf("arrived: %q after %d", got, fails)
	}
	refused = fmt.Errorf("%w: no more room", mount.ErrRefused)
	p.do(p.write("deep/y", "written"))
	err := p.m.Flush(t.Context())
	if !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "deep/y: ") ||
		!strings.Contains(err.Error(), "no more room") || !strings.Contains(err.Error(), "s3://bucket/in/") {
		t.Errorf("%v", err)
	}
}

// rclone dies. The error must name the files that were not uploaded, and nothing may stay mounted.
func TestKilledWriteBehindMountNamesMissingFiles(t *testing.T) {
	a := open3(t)
	p := a.behind(t, func(upload) upload {
		return func(context.Context, string, []string) error { return errors.New("not now") }
	})
	p.do(p.write("unsent", "x"))
	p.do(mounttest.Rclone(t, p.dir).Kill())
	<-p.m.Gone()
	if left := mounttest.Mounted(t, p.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if err := p.m.Lost(); !errors.Is(err, mount.ErrLost) || !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "unsent") {
		t.Errorf("%v", err)
	}
}

// A socket cannot be uploaded, so Unkept must list it.
func TestUnkeptNamesSpecialFiles(t *testing.T) {
	a := open3(t)
	p := a.behind(t, nil)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", p.at("s"))
	p.do(err)
	defer l.Close() //nolint:errcheck // a test's
	p.do(syscall.Mkfifo(p.at("fifo"), 0o600))
	p.flush()
	if got := p.m.Unkept(); !slices.Equal(got, []string{"fifo", "s"}) {
		t.Errorf("not kept: %v", got)
	}
}
