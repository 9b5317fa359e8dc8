//go:build linux

package stage_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// A checkpoint that does not fit on the disk must not be started. Otherwise the task's own next write would fail.
func TestCheckpointLeavesDiskSpaceToTask(t *testing.T) {
	disk := t.TempDir()
	mount := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=24m", "none", disk)
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("this user cannot mount: %s", out)
	}
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "umount", "-l", disk).Run() })
	src, dst := filepath.Join(disk, "checkpoint"), filepath.Join(disk, "snapshot")
	_ = os.Mkdir(src, 0o700)
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"a", "b"} { // 14 of 24 MiB used
		if err := os.WriteFile(filepath.Join(src, name), make([]byte, 7<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Chtimes(filepath.Join(src, name), old, old)
	}
	_, snapped := stage.Snapshot(t.Context(), src, dst, func(string) {})
	if !errors.Is(snapped, syscall.ENOSPC) {
		t.Fatalf("there was room: %v", snapped)
	}
	if _, err := os.Stat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the failed copy was not removed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(disk, "result"), make([]byte, 8<<20), 0o600); err != nil {
		t.Errorf("10 MiB were free; after the snapshot (%v) the task's 8 MiB: %v", snapped, err)
	}
}
