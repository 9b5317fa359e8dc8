package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A task has mounted a file system in its machine's folder. When the folder is removed, the files in that file system
// must stay.
func TestRemoveDirKeepsMountedFiles(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	point := filepath.Join(dir, "0", workName, "x")
	if err := os.MkdirAll(point, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(precious, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "--bind", precious, point).CombinedOutput(); err != nil {
		t.Skipf("this user cannot mount: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", point).Run() })
	if err := removeDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(precious, "there")); err != nil {
		t.Error("the mounted files are gone: ", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is left")
	}
}
