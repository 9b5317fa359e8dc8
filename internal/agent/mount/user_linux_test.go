package mount_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// asUser runs tests of this package again as the user nobody, in a mount namespace in which /dev/fuse has the given
// mode. (On most computers, every user can open it.) It fails if one of the tests fails or is skipped.
func asUser(t *testing.T, path, mode string, tests ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("these tests already run without root")
	}
	rclone := mounttest.Program(t, mounttest.Environ(t))
	for _, program := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("cannot become another user: %v (Debian: util-linux)", err)
		}
	}
	tools, err := emulator.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nobody") // not below a folder that only root can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "mount.test")
	for to, from := range map[string]string{program: os.Args[0], filepath.Join(dir, "rclone"): rclone} {
		copyProgram(t, to, from)
	}
	own := filepath.Join(dir, "tools") // with a log folder that every user may write to
	for _, err := range []error{
		os.MkdirAll(filepath.Join(own, "logs"), 0o755), os.Symlink(filepath.Join(tools, "bin"), filepath.Join(own, "bin")),
		os.Chmod(filepath.Join(own, "logs"), 0o777), os.Chmod(dir, 0o777), //nolint:gosec // the test's own
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	script := `set -e
mknod "$1/fuse" c 10 229 && chmod "$4" "$1/fuse" && mount --bind "$1/fuse" /dev/fuse
exec setpriv --reuid 65534 --regid 65534 --clear-groups env "PATH=$3" "$1/mount.test" -test.v -test.timeout 5m -test.run "$2"
`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, "sh", dir,
		"^("+strings.Join(tests, "|")+")$", path, mode)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "TRADEWIND_RCLONE="+filepath.Join(dir, "rclone"),
		"TRADEWIND_TOOLS="+own)
	cmd.WaitDelay = 5 * time.Second // processes that a failed test has left keep its output open
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "mount: ") && !strings.Contains(string(out), "=== RUN") {
		t.Skipf("cannot create a mount namespace: %s", out)
	}
	for _, name := range tests {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s did not pass as nobody", name)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyProgram(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// An agent without root mounts with FUSE alone, and rclone's cache uploads. The agent must wait for the uploads.
func TestMountWithoutRootUsesRcloneOnly(t *testing.T) {
	path := t.TempDir() // a PATH that has only FUSE's helper
	for _, name := range []string{"fusermount3", "sh", "cat", "env"} {
		if program, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(program, filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for p := path; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil { //nolint:gosec // the test's own
			t.Fatal(err)
		}
	}
	asUser(t, path, "0666", "TestMountLocalFolder", "TestMountBucketWithLentCredentials",
		"TestFailedFlushNamesFiles", "TestFlushWaitsForOpenFiles",
		"TestKilledMountIsReportedAndCleanedUp")
}

// An agent without root but with fuse-overlayfs uploads writes in the background, as with root.
func TestWriteBehindWithoutRoot(t *testing.T) {
	if _, err := exec.LookPath("fuse-overlayfs"); err != nil {
		emulator.Missing(t, "write-behind mounts are not tested without root: %v (Debian: fuse-overlayfs)", err)
	}
	asUser(t, os.Getenv("PATH"), "0666", "TestWriteBehindUploads", "TestForeignWritesAreVisibleAndKept",
		"TestOpenFileIsNotUploaded", "TestWriteBehindUploadsWhileTaskRuns", "TestFailedUploadIsRetried",
		"TestKilledWriteBehindMountNamesMissingFiles", "TestKilledOverlayNamesMissingFiles")
}

// fuse-overlayfs dies, and the task sees an empty folder. The mount must end, and the error must name the files that
// were not uploaded.
func TestKilledOverlayNamesMissingFiles(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root's overlay has no process")
	}
	a := open3(t)
	p := a.behind(t, func(upload) upload {
		return func(context.Context, string, []string) error { return errors.New("not now") }
	})
	p.do(p.write("unsent", "x"))
	over := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if body, _ := os.ReadFile(name); strings.HasPrefix(string(body), filepath.Join(p.dir, "own")+"/tradewind:over\x00") {
			over, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		}
	}
	if over == 0 {
		t.Fatal("no overlay runs")
	}
	p.do(syscall.Kill(over, syscall.SIGKILL))
	<-p.m.Gone()
	if err := p.m.Lost(); !errors.Is(err, mount.ErrLost) || !strings.Contains(err.Error(), "fuse-overlayfs was killed by signal 9") ||
		!strings.Contains(err.Error(), "not uploaded: unsent") {
		t.Errorf("%v", err)
	}
	if left := mounttest.Mounted(t, p.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
}

// A user cannot open /dev/fuse. The check must fail with an explanation before anything is mounted or bought.
func TestCheckFUSEExplainsMissingPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		asUser(t, os.Getenv("PATH"), "0600", "TestCheckFUSEExplainsMissingPermission")
		return
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
		t.Skip("this user may")
	}
	err = mount.CheckFUSE()
	if !errors.Is(err, mount.ErrNoFUSE) || !strings.Contains(err.Error(), "this user cannot open /dev/fuse") {
		t.Errorf("%v", err)
	}
}
