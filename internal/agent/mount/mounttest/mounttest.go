// Package mounttest helps tests that mount: it finds rclone and FUSE, and serves credentials.
package mounttest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Environ returns an environment in which mount.Find finds rclone. It skips the test if rclone or FUSE is missing,
// and fails the test if mounts remain below its temporary folders.
func Environ(t testing.TB) []string {
	t.Helper()
	environ := os.Environ()
	if tools, err := emulator.ToolsDir(); err == nil && os.Getenv(mount.ProgramEnv) == "" {
		if own := filepath.Join(tools, "bin", "rclone"); exists(own) {
			environ = append(environ, mount.ProgramEnv+"="+own)
		}
	}
	if _, err := mount.Find(context.Background(), environ); err != nil {
		emulator.Missing(t, "mounts are not tested: %v (make emulators builds it)", err)
	}
	if err := mount.CheckFUSE(); err != nil {
		emulator.Missing(t, "mounts are not tested: %v", err)
	}
	root := filepath.Dir(t.TempDir())
	t.Cleanup(func() {
		if left := Mounted(t, root); len(left) > 0 {
			t.Errorf("still mounted: %v", left)
			if err := mount.Clear(context.Background(), root); err != nil {
				t.Error(err)
			}
		}
	})
	return environ
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Program returns the path of the rclone that an environment names.
func Program(t testing.TB, environ []string) string {
	t.Helper()
	path, err := mount.Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Mounted returns the FUSE mount points below a folder.
func Mounted(t testing.TB, root string) (points []string) {
	t.Helper()
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasPrefix(f[4], root+"/") && strings.Contains(line, " fuse") {
			points = append(points, f[4])
		}
	}
	return points
}

// Rclone returns the process of the only rclone that mounts below a folder.
func Rclone(t testing.TB, root string) *os.Process {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			body, err := os.ReadFile(name) //nolint:gosec // of a process
			argv := strings.Split(string(body), "\x00")
			if err != nil || len(argv) < 4 || argv[1] != "mount" || !strings.HasPrefix(argv[3], root+"/") {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				if p, err := os.FindProcess(pid); err == nil {
					return p
				}
			}
		}
	}
	t.Fatal("no rclone is running")
	return nil
}

// Shell runs a script and returns its output.
func Shell(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput() //nolint:gosec // the test's own
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}
