package localfiles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Clone is a cloned git repository.
type Clone struct {
	Dir    string // contains the committed files, without git's own
	Commit string
}

// Repository clones a git repository at a ref, without its history, into a folder below dir. It never prompts for a
// password: access depends on git's own configuration, on $GIT_TOKEN for https, and on $GIT_SSH_KEY_PATH for ssh.
// Errors contain git's own message.
func Repository(ctx context.Context, dir string, r dag.Repository) (Clone, error) {
	c := Clone{Dir: filepath.Join(dir, repositoryName(r.URL))}
	if err := os.Mkdir(c.Dir, 0o755); err != nil { //nolint:gosec // in the caller's folder
		return c, err
	}
	g := git{dir: c.Dir, env: gitEnviron(os.Environ(), r.URL)}
	if _, err := g.run(ctx, "init", "--quiet"); err != nil {
		return c, err
	}
	// URLs of submodules and of LFS files may be relative to this one.
	if _, err := g.run(ctx, "config", "remote.origin.url", r.URL); err != nil {
		return c, err
	}
	g.env = withLFS(g.env)
	if err := g.fetch(ctx, r); err != nil {
		return c, err
	}
	if _, err := g.run(ctx, "checkout", "--quiet", "--detach", "FETCH_HEAD"); err != nil {
		return c, err
	}
	commit, err := g.run(ctx, "rev-parse", "HEAD")
	if err != nil {
		return c, err
	}
	c.Commit = strings.TrimSpace(commit)
	if err := g.submodules(ctx, r); err != nil {
		return c, err
	}
	if err := removeGitDirs(c.Dir); err != nil {
		return c, err
	}
	return c, checkLFS(c.Dir)
}

// submodules fetches the commit's submodules recursively, each at its recorded commit.
func (g git) submodules(ctx context.Context, r dag.Repository) error {
	if _, err := os.Lstat(filepath.Join(g.dir, ".gitmodules")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !filepath.IsAbs(r.URL) && !strings.HasPrefix(r.URL, "file:") {
		// Do not let a foreign repository read paths of this computer.
		g.env = append(slices.Clone(g.env), "GIT_ALLOW_PROTOCOL=git:http:https:ssh")
	}
	_, err := g.run(ctx, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1")
	return err
}

// removeGitDirs removes git's own files, including those of submodules.
func removeGitDirs(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != ".git" {
			return err
		}
		if err := os.RemoveAll(path); err != nil || !d.IsDir() { //nolint:gosec // no other program writes to the clone
			return err
		}
		return fs.SkipDir
	})
}

// repositoryName returns the name of a clone: the last part of the URL.
func repositoryName(from string) string {
	name := strings.TrimSuffix(path.Base(strings.TrimRight(from, "/")), ".git")
	name = name[strings.LastIndexByte(name, ':')+1:]
	if name == "" || name == "." || name == ".." {
		return "repository"
	}
	return name
}

// git runs the program git in a folder.
type git struct {
	dir string
	env []string
}

// someCommit matches a possibly abbreviated commit. Servers do not resolve abbreviated ones.
var someCommit = regexp.MustCompile(`^[0-9a-f]{4,40}$`)

// fetch fetches the ref to FETCH_HEAD.
func (g git) fetch(ctx context.Context, r dag.Repository) error {
	_, err := g.run(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--", r.URL, cmp.Or(r.Ref, "HEAD"))
	if err == nil || !someCommit.MatchString(r.Ref) {
		return err
	}
	// The commit must be searched in the whole history.
	if _, all := g.run(ctx, "fetch", "--quiet", "--", r.URL, "+refs/heads/*:refs/remotes/from/*",
		"+refs/tags/*:refs/tags/*"); all != nil {
		return err
	}
	commit, missing := g.run(ctx, "rev-parse", "--verify", "--quiet", r.Ref+"^{commit}")
	if missing != nil {
		return err
	}
	return os.WriteFile(filepath.Join(g.dir, ".git", "FETCH_HEAD"), []byte(commit), 0o600)
}

func (g git) run(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...) //nolint:gosec // no option comes from a file: the readers of job files check branches
	c.Dir, c.Env, c.WaitDelay = g.dir, g.env, 5*time.Second
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(said.String()), err.Error()))
	}
	return out.String(), nil
}

// gitEnviron returns the environment for a git that never prompts and uses no other repository.
func gitEnviron(environ []string, from string) []string {
	var env []string
	known := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		known[name] = value
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_TOKEN":
		default:
			env = append(env, kv)
		}
	}
	ssh := cmp.Or(known["GIT_SSH_COMMAND"], "ssh") + " -o BatchMode=yes"
	if key := known["GIT_SSH_KEY_PATH"]; key != "" {
		ssh += " -o IdentitiesOnly=yes -i '" + strings.ReplaceAll(key, "'", `'\''`) + "'"
	}
	env = append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "GIT_SSH_COMMAND="+ssh,
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh")
	if u, err := url.Parse(from); known["GIT_TOKEN"] != "" && err == nil && u.Scheme == "https" {
		// In the environment, so that process lists do not show it, and only for this host.
		basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + known["GIT_TOKEN"]))
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.https://"+u.Host+"/.extraHeader",
			"GIT_CONFIG_VALUE_0=Authorization: Basic "+basic)
	}
	return env
}

// clone replaces git repositories by packs. It clones each only once.
func (p Base) clone(ctx context.Context, spec *dag.Job, o pack.Options, bring Uploader) (changed bool, err error) {
	packed := map[dag.Repository]string{}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.Repository == nil {
			continue
		}
		repo := *t.Repository
		if packed[repo] == "" {
			if packed[repo], err = p.cloneOne(ctx, repo, o, bring); err != nil {
				return changed, p.explain(spec, i, "workdir", repo.URL, repo.URL, err)
			}
		}
		t.Workdir, t.Repository, changed = packed[repo], nil, true
	}
	return changed, nil
}

// errCannotClone is wrapped by errors of git.
var errCannotClone = errors.New("cannot be cloned")

// local reports whether a repository is a path relative to the folder of the job's file.
func local(r dag.Repository) bool { return !strings.Contains(r.URL, ":") && !filepath.IsAbs(r.URL) }

func (p Base) cloneOne(ctx context.Context, repo dag.Repository, o pack.Options, bring Uploader) (_ string, err error) {
	dir, err := os.MkdirTemp("", "tradewind-git-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := repo
	if local(repo) {
		at.URL = filepath.Join(p.Base, repo.URL)
	}
	c, err := Repository(ctx, dir, at)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		clean := redacted(repo.URL)
		return "", fmt.Errorf("%s %w: %s", clean, errCannotClone, strings.ReplaceAll(err.Error(), repo.URL, clean))
	}
	o.Committed = true
	return bring(ctx, c.Dir, o)
}

// redacted returns a URL without its password.
func redacted(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	return s
}
