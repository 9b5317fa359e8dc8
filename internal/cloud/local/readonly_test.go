package local

import (
	"os"
	"path/filepath"
	"testing"
)

// A task has left folders that are read-only for their owner, for example Go's module cache. RemoveDir must remove
// them.
func TestRemoveDirRemovesReadOnlyFolders(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can remove everything")
	}
	dir := t.TempDir()
	mod := filepath.Join(dir, "0", workName, "attempts", "1", "home", "go", "pkg", "mod", "m@v1")
	if err := os.MkdirAll(mod, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mod, "go.mod"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mod, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(mod, 0o700) })
	if err := removeDir(dir); err != nil {
		t.Errorf("the machine's folder cannot be removed: %v", err)
	}
}
