package localfiles_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestSubmodulesAreClonedAtTheirCommit covers nested submodules, and URLs relative to the URL of the repository.
func TestSubmodulesAreClonedAtTheirCommit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"inner", "outer", "code"} {
		repository(t, filepath.Join(dir, name))
	}
	first := gitIn(t, filepath.Join(dir, "inner"), "rev-parse", "HEAD~1")
	add := func(to, from string) {
		at := filepath.Join(dir, to)
		gitIn(t, at, "submodule", "--quiet", "add", "../"+from, "below/"+from)
		if from == "inner" { // the commit is not the head of its branch
			gitIn(t, filepath.Join(at, "below", from), "checkout", "-q", first)
		}
		gitIn(t, at, "commit", "-q", "-a", "-m", "with "+from)
	}
	add("outer", "inner")
	add("code", "outer")
	c, err := localfiles.Repository(t.Context(), t.TempDir(), dag.Repository{URL: filepath.Join(dir, "code")})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a": "two", "below/outer/a": "two", "below/outer/below/inner/a": "one"} {
		if body, err := os.ReadFile(filepath.Join(c.Dir, path)); err != nil || string(body) != want {
			t.Errorf("%s: %q %v", path, body, err)
		}
	}
	err = filepath.WalkDir(c.Dir, func(path string, d os.DirEntry, err error) error {
		if filepath.Base(path) == ".git" {
			t.Errorf("%s is git's own", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestForeignSubmoduleCannotUseLocalPath: a submodule of a cloned repository has a local path as its URL. It must be
// refused, because files of this computer would be packed.
func TestForeignSubmoduleCannotUseLocalPath(t *testing.T) {
	dir := t.TempDir()
	private, public := filepath.Join(dir, "private"), filepath.Join(dir, "public")
	repository(t, private)
	repository(t, public)
	gitIn(t, public, "submodule", "--quiet", "add", private, "stolen")
	gitIn(t, public, "commit", "-q", "-a", "-m", "x")
	gitIn(t, public, "update-server-info")
	server := httptest.NewServer(http.FileServer(http.Dir(public)))
	defer server.Close()
	// Over plain HTTP, git cannot clone a single commit. It must fetch the whole repository.
	head := gitIn(t, public, "rev-parse", "HEAD")
	c, err := localfiles.Repository(t.Context(), t.TempDir(), dag.Repository{URL: server.URL + "/.git", Ref: head[:12]})
	if err == nil || !strings.Contains(err.Error(), "transport 'file' not allowed") {
		t.Errorf("%+v %v", c, err)
	}
}
