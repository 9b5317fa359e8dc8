package pack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/pack"
)

// files returns the files in a pack of dir.
func files(t testing.TB, dir string) []string {
	t.Helper()
	tree, err := pack.Pack(t.Context(), dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	s := &shelf{}
	s.put(t, tree)
	l, err := pack.ReadList(t.Context(), s, digest(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range l.Entries {
		if !e.Dir {
			out = append(out, e.Path)
		}
	}
	return out
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+t.TempDir(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func needGit(t testing.TB) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// TestIgnoreRulesMatchGit: for random trees with random ignore files in them and above them, the packed files must be
// those that git would add.
func TestIgnoreRulesMatchGit(t *testing.T) {
	needGit(t)
	top := t.TempDir()
	git(t, top, "init", "-q")
	word := rapid.SampledFrom([]string{"a", "b", "ab", "a.b", "*", "a*", "*b", "?", "**", "[ab]", "[!a]", "a**b", `\a`, "{a,b}", "a b"})
	line := rapid.Custom(func(r *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "", "", "!", "/", "#", `\!`, "**/"}).Draw(r, "before")
		s += strings.Join(rapid.SliceOfN(word, 1, 3).Draw(r, "words"), "/")
		return s + rapid.SampledFrom([]string{"", "", "/", "/**", " ", `\ `, "\r"}).Draw(r, "after")
	})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "a.b", "{a,b}", "a b", "c"})
	rapid.Check(t, func(r *rapid.T) {
		entries, err := os.ReadDir(top)
		if err != nil {
			r.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != ".git" {
				os.RemoveAll(filepath.Join(top, e.Name()))
			}
		}
		dir := filepath.Join(top, "work", "dir")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.Fatal(err)
		}
		all := []string{top, filepath.Dir(dir), dir}
		for range rapid.IntRange(1, 10).Draw(r, "files") {
			p := filepath.Join(append([]string{dir}, rapid.SliceOfN(name, 1, 3).Draw(r, "path")...)...)
			if os.MkdirAll(filepath.Dir(p), 0o755) == nil {
				if err := os.WriteFile(p, nil, 0o600); err == nil {
					all = append(all, filepath.Dir(p))
				}
			}
		}
		for range rapid.IntRange(1, 3).Draw(r, "ignore files") {
			at := rapid.SampledFrom(all).Draw(r, "at")
			lines := strings.Join(rapid.SliceOfN(line, 1, 4).Draw(r, "lines"), "\n")
			if err := os.WriteFile(filepath.Join(at, ".gitignore"), []byte(lines), 0o600); err != nil {
				r.Fatal(err)
			}
		}
		if exec.Command("git", "-C", top, "check-ignore", "-q", "work/dir").Run() == nil ||
			exec.Command("git", "-C", top, "check-ignore", "-q", "work").Run() == nil {
			return // packed, because the user named it
		}
		want := strings.FieldsFunc(git(t, dir, "ls-files", "--others", "--exclude-standard", "-z", "."),
			func(r rune) bool { return r == 0 })
		slices.Sort(want)
		if got := files(t, dir); !slices.Equal(got, want) {
			r.Fatalf("packed %q, git has %q", got, want)
		}
	})
}

func TestIgnoreFilePrecedence(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "sub/c", "sub/d", ".git/HEAD"} {
		put(t, dir, name, "", 0o644)
	}
	check := func(what string, want ...string) {
		t.Helper()
		got := slices.DeleteFunc(files(t, dir), func(p string) bool { return strings.HasSuffix(p, "ignore") })
		if !slices.Equal(got, want) {
			t.Errorf("%s: packed %q", what, got)
		}
	}
	check("none", "a", "b", "c", "sub/c", "sub/d")
	put(t, dir, ".gitignore", "c", 0o644)
	put(t, dir, "sub/.gitignore", "!c\nd", 0o644)
	check("git's", "a", "b", "sub/c")
	put(t, dir, ".skyignore", "a", 0o644)
	check("SkyPilot's alone", ".git/HEAD", "b", "c", "sub/c", "sub/d")
	put(t, dir, ".tradewindignore", "b\n.git", 0o644)
	check("our own alone", "a", "c", "sub/c", "sub/d")
}

// TestIgnoredFolderIsPackedIfNamed: an ignore file excludes a folder that the user names. It must be packed.
func TestIgnoredFolderIsPackedIfNamed(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, ".git/HEAD", "", 0o644)
	put(t, dir, ".gitignore", "build/\n*.o", 0o644)
	put(t, dir, "build/x.o", "", 0o644)
	put(t, dir, "src/x.o", "", 0o644)
	put(t, dir, "src/x.c", "", 0o644)
	if got := files(t, filepath.Join(dir, "build")); !slices.Equal(got, []string{"x.o"}) {
		t.Errorf("of build: %q", got)
	}
	if got := files(t, filepath.Join(dir, "src")); !slices.Equal(got, []string{"x.c"}) {
		t.Errorf("of src: %q", got)
	}
	if got := files(t, filepath.Join(dir, ".git")); !slices.Equal(got, []string{"HEAD"}) {
		t.Errorf("of .git: %q", got)
	}
}
