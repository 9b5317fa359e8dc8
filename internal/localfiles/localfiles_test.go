package localfiles_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, body string) *dag.Job {
	t.Helper()
	spec, err := read.Job("job.yaml", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// named returns an uploader that only records what it is asked to upload.
func named(brought *[]string) localfiles.Uploader {
	return func(_ context.Context, path string, _ pack.Options) (string, error) {
		*brought = append(*brought, path)
		return "pack:" + filepath.Base(path), nil
	}
}

const several = `apiVersion: tradewind/v1
name: several
tasks:
  make:
    workdir: code
    run: ls
    outputs: [{name: out, uri: made}]
  use:
    after: [make]
    workdir: code
    run: ls
    inputs: [{uri: made/part}, {uri: data, path: a}, {uri: ~/home, path: b}, {uri: "s3://b/k"}, {uri: "file:///none"}]
  sizes:
    recorded: 1m
    inputs: [{uri: not/there, size: 1GiB}]
`

func TestLocalPathsBecomePacks(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	put(t, dir, "code/main.py", "")
	put(t, dir, "data", strings.Repeat("x", 1<<20))
	put(t, home, "home", "")
	spec := parse(t, several)
	p := localfiles.Base{Base: dir, Home: home}
	if changed, err := p.Find(t.Context(), spec, pack.Options{}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := spec.Tasks[1].Inputs[1].Size; got != 1.0/1024 {
		t.Errorf("data has %v GiB", got)
	}
	var brought []string
	if changed, err := p.Pack(t.Context(), spec, pack.Options{}, named(&brought)); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if len(brought) != 3 { // the folder of code is uploaded only once
		t.Errorf("brought %q", brought)
	}
	use := spec.Tasks[1]
	for i, want := range []string{filepath.Join(dir, "made/part"), "pack:data", "pack:home", "s3://b/k", "file:///none"} {
		if use.Inputs[i].URI != want {
			t.Errorf("input %d is %s", i, use.Inputs[i].URI)
		}
	}
	if use.Workdir != "pack:code" || spec.Tasks[2].Inputs[0].URI != "not/there" {
		t.Errorf("%+v", spec.Tasks)
	}
}

func TestMissingPathWithVariableSaysThatNothingReplacesIt(t *testing.T) {
	spec := parse(t, strings.Replace(several, "workdir: code", "workdir: $CODE", 1))
	_, err := localfiles.Base{Base: t.TempDir()}.Find(t.Context(), spec, pack.Options{MaxBytes: 1000})
	if text := fmt.Sprint(err); !strings.Contains(text, "a variable without a value in the file is not replaced") {
		t.Error(text)
	}
}

func TestFindErrorsPointToLine(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string)
		says []string
	}{
		"missing": {func(string) {}, []string{`job.yaml:5:14: tasks.make.workdir: "code": there is no `, "paths begin at "}},
		"a file":  {func(d string) { put(t, d, "code", "ls") }, []string{"job.yaml:5:14: ", `"code" is a file, not a folder`, "put the file into inputs"}},
		"a link":  {func(d string) { put(t, d, "code/x", ""); _ = os.Symlink("/etc", d+"/code/etc") }, []string{"job.yaml:5:14: ", "/code/etc cannot be packed"}},
		"large":   {func(d string) { put(t, d, "code/big/data", strings.Repeat("x", 2000)) }, []string{"job.yaml:5:14: ", "big/data", ".tradewindignore"}},
	} {
		dir := t.TempDir()
		c.make(dir)
		_, err := localfiles.Base{Base: dir}.Find(t.Context(), parse(t, several), pack.Options{MaxBytes: 1000})
		var bad *dag.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", name, err, s)
			}
		}
		if name == "missing" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

// A mount would hide files of the workdir. It must be rejected.
func TestMountOverWorkdirFilesIsRejected(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"code/data/train/x", "code/file", "code/left/out", "code/database/y"} {
		put(t, dir, name, "x")
	}
	put(t, dir, "code/.tradewindignore", "left/\n")
	if err := os.Mkdir(filepath.Join(dir, "code/empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for place, hidden := range map[string]string{
		"data": "data/train", "data/train/": "data/train/x", "./data": "data/train", "file": "file",
		"data/new": "", "empty": "", "left": "", "new": "", "~/data": "", "/data": "", "dat": "",
	} {
		spec := parse(t, "apiVersion: tradewind/v1\nname: x\ntasks:\n  a:\n    workdir: code\n    run: ls\n    inputs:\n"+
			"      - {uri: \"s3://b/k\", path: \""+place+"\", mount: true}\n"+
			"      - {uri: \"s3://b/l\"}\n      - {uri: \"s3://b/m\", mount: true}\n")
		_, err := localfiles.Base{Base: dir}.Find(t.Context(), spec, pack.Options{})
		switch {
		case hidden == "" && err != nil:
			t.Errorf("%s: %v", place, err)
		case hidden != "" && (err == nil || !strings.Contains(err.Error(),
			"job.yaml:8:9: tasks.a.inputs[0]: would be mounted over "+hidden+" of the workdir")):
			t.Errorf("%s: %v, want a word of %s", place, err, hidden)
		}
	}
}

// gitIn runs git in a folder, without the user's configuration.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-C", dir}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ALLOW_PROTOCOL=file")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository creates a repository with two commits and a tag, and returns the first commit.
func repository(t *testing.T, dir string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(args ...string) string { return gitIn(t, dir, args...) }
	put(t, dir, "a", "one")
	put(t, dir, ".gitignore", "kept")
	put(t, dir, "kept", "though it is ignored")
	git("init", "-q", "-b", "main")
	git("add", "-f", ".")
	git("commit", "-q", "-m", "one")
	first := git("rev-parse", "HEAD")
	git("tag", "v1")
	put(t, dir, "a", "two")
	git("commit", "-q", "-a", "-m", "two")
	git("update-server-info")
	return first
}

func TestRepositoryIsClonedAtRef(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "code.git")
	first := repository(t, dir)
	for ref, want := range map[string]string{"": "two", "main": "two", "v1": "one", first: "one", first[:8]: "one"} {
		spec := parse(t, "apiVersion: tradewind/v1\nname: x\ntasks: {a: {run: ls}, b: {run: ls}}\n")
		for i := range spec.Tasks {
			spec.Tasks[i].Repository = &dag.Repository{URL: "../" + filepath.Base(filepath.Dir(dir)) + "/code.git", Ref: ref}
		}
		times := 0
		_, err := localfiles.Base{Base: filepath.Dir(dir)}.Pack(t.Context(), spec, pack.Options{},
			func(ctx context.Context, path string, o pack.Options) (string, error) {
				times++
				tree, err := pack.Pack(ctx, path, o)
				if err != nil {
					return "", err
				}
				defer tree.Close()
				body, err := os.ReadFile(filepath.Join(path, "a"))
				if err != nil || string(body) != want || tree.Files() != 3 || filepath.Base(path) != "code" {
					t.Errorf("ref %q: %s with %d files, a is %q, %v", ref, path, tree.Files(), body, err)
				}
				return tree.URI(), nil
			})
		if err != nil || times != 1 {
			t.Errorf("ref %q: %d times, %v", ref, times, err)
		}
		if w := spec.Tasks[1].Workdir; !pack.IsURI(w) || spec.Tasks[1].Repository != nil || w != spec.Tasks[0].Workdir {
			t.Errorf("ref %q: %+v", ref, spec.Tasks[1])
		}
	}
}

func TestCloneErrorHasGitMessageWithoutPassword(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Authorization")
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	t.Setenv("GIT_TOKEN", "the-token")
	for repo, says := range map[dag.Repository]string{
		{URL: dir, Ref: "nope"}:                "couldn't find remote ref nope",
		{URL: dir, Ref: "deadbeef"}:            "couldn't find remote ref deadbeef",
		{URL: filepath.Join(dir, "none")}:      "does not appear to be a git repository",
		{URL: server.URL}:                      "git fetch: fatal: ",
		{URL: "http://me:secret@127.0.0.1:1/"}: "me:xxxxx@127.0.0.1:1",
	} {
		spec := parse(t, "apiVersion: tradewind/v1\nname: x\ntasks:\n  a: {run: ls}\n")
		spec.Tasks[0].Repository = &repo
		_, err := localfiles.Base{Base: dir}.Pack(t.Context(), spec, pack.Options{}, named(new([]string)))
		var bad *dag.Error
		if !errors.As(err, &bad) || bad.Line != 4 || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", repo.URL, err)
		}
	}
	if basic, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(asked, "Basic ")); strings.Contains(string(basic), "the-token") {
		t.Error("the token is sent to plain http")
	}
}

func TestCloneEndsWithContext(t *testing.T) {
	hang := make(chan struct{})
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-hang
	}))
	defer server.Close()
	defer close(hang)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := localfiles.Repository(ctx, t.TempDir(), dag.Repository{URL: server.URL + "/x.git"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
