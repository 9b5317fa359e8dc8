package localfiles_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// large creates a repository with a file in Git LFS, and another repository that has the first as a submodule.
func large(t *testing.T) (dir string) {
	t.Helper()
	tools, err := emulator.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Join(tools, "bin"))
	if _, err := exec.LookPath("git-lfs"); err != nil {
		emulator.Missing(t, "files in Git LFS are not tested: %v (make emulators builds it)", err)
	}
	dir = t.TempDir()
	model := filepath.Join(dir, "model")
	repository(t, model)
	repository(t, filepath.Join(dir, "code"))
	put(t, model, ".gitattributes", "*.bin filter=lfs -text")
	put(t, model, "weights.bin", "very large")
	for _, set := range [][2]string{{"filter.lfs.process", "git-lfs filter-process"}, {"filter.lfs.required", "true"}} {
		gitIn(t, model, "config", set[0], set[1])
	}
	gitIn(t, model, "add", ".")
	gitIn(t, model, "commit", "-q", "-m", "large")
	if kept := gitIn(t, model, "cat-file", "-p", "HEAD:weights.bin"); !strings.HasPrefix(kept, "version https://git-lfs") {
		t.Fatalf("committed is %q", kept)
	}
	code := filepath.Join(dir, "code")
	gitIn(t, code, "submodule", "--quiet", "add", "../model", "model")
	gitIn(t, code, "commit", "-q", "-a", "-m", "with the model")
	return dir
}

func TestGitLFSFilesAreFetched(t *testing.T) {
	dir := large(t)
	for name, path := range map[string]string{"model": "weights.bin", "code": "model/weights.bin"} {
		c, err := localfiles.Repository(t.Context(), t.TempDir(), dag.Repository{URL: filepath.Join(dir, name)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if body, err := os.ReadFile(filepath.Join(c.Dir, path)); err != nil || string(body) != "very large" {
			t.Errorf("%s: %q %v", path, body, err)
		}
	}
}

// Git LFS is missing. This must be an error, because the task would get the pointer instead of the file.
func TestMissingGitLFSIsReported(t *testing.T) {
	dir := large(t)
	without := t.TempDir()
	for _, program := range []string{"git", "sh"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(without, program)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", without)
	_, err := localfiles.Repository(t.Context(), t.TempDir(), dag.Repository{URL: filepath.Join(dir, "model")})
	if err == nil || !strings.Contains(err.Error(), "weights.bin is stored in Git LFS, but git-lfs is missing") {
		t.Error(err)
	}
}
