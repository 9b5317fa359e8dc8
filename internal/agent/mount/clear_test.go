package mount_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
)

// A task has mounted a file system in its folder. It must be unmounted before the folder is removed, so that its
// files stay.
func TestClearAllUnmountsForeignMounts(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a point", "a point/below"} {
		point := filepath.Join(dir, name)
		if err := os.MkdirAll(point, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount", "--bind", precious, point).CombinedOutput(); err != nil {
			t.Skipf("this user cannot mount: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", point).Run() })
		if err := os.MkdirAll(filepath.Join(precious, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := mount.ClearAll(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(precious, "there")); err != nil {
		t.Error("the mounted files are gone: ", err)
	}
}
