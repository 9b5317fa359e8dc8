package container

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Errors of this package, wrapped with detail.
var (
	// ErrNoEngine: neither docker nor podman answers on this machine.
	ErrNoEngine = errors.New("no container engine")
	// ErrPull: the image cannot be had; what follows are the engine's or the registry's own words.
	ErrPull = errors.New("cannot pull")
	// ErrStart: the container did not start, such as one without a shell.
	ErrStart = errors.New("cannot start")
)

// EngineEnv names the engine to use, docker or podman or a path; else the first of them that answers is.
const EngineEnv = "TRADEWIND_CONTAINER_ENGINE"

// Engine is docker or podman.
type Engine struct {
	path   string
	env    []string // of the engine itself, not of tasks
	podman bool
}

// answersWithin is how long an engine may take to say that it is there.
const answersWithin = 20 * time.Second

// Find returns the machine's engine. environ is that of the agent: it says where programs and daemons are.
func Find(ctx context.Context, environ []string) (*Engine, error) {
	names := []string{"docker", "podman"}
	if name := lookup(environ, EngineEnv); name != "" {
		names = []string{name}
	}
	var why error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			why = errors.Join(why, err)
			continue
		}
		e := &Engine{path: path, env: environ, podman: strings.Contains(filepath.Base(path), "podman")}
		asked, cancel := context.WithTimeout(ctx, answersWithin)
		_, err = e.output(asked, "info", "--format", "{{json .}}") // the client alone is of no use
		cancel()
		if err == nil {
			return e, nil
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", name, err))
	}
	return nil, fmt.Errorf("%w: install docker or podman, or set %s: %w", ErrNoEngine, EngineEnv, why)
}

// Name is docker or podman.
func (e *Engine) Name() string {
	if e.podman {
		return "podman"
	}
	return "docker"
}

// Login is who one is at a registry, the image's own where Server is empty. The zero Login is nobody.
type Login struct{ Server, User, Password string }

// hub is where docker looks for an image without a registry.
const hub = "https://index.docker.io/v1/"

// registryOf is the server whose login an image needs: what stands before the first slash where that is a host, else
// docker's own (github.com/distribution/reference, "Grammar").
func registryOf(image string) string {
	host, _, more := strings.Cut(image, "/")
	if more && (strings.ContainsAny(host, ".:") || host == "localhost") && host != "docker.io" {
		return host
	}
	return hub
}

// refusals are words by which engines tell that a registry did answer, and does not hand the image out.
var refusals = []string{"unauthorized", "authentication required", "denied", "invalid username/password"}

func refused(err error) bool {
	said := strings.ToLower(err.Error())
	return slices.ContainsFunc(refusals, func(words string) bool { return strings.Contains(said, words) })
}

// Pull brings an image. One that is on the machine already is good enough where its registry does not answer, and where
// nobody logs in. A login that is refused is an ErrPull though the image is here: it may be here for somebody else. The
// login reaches the engine by a file in dir, which is removed again. Lines of progress go to note.
func (e *Engine) Pull(ctx context.Context, image string, as Login, dir string, note func(string)) error {
	args := []string{"pull", image}
	if as.User != "" {
		server := cmp.Or(as.Server, registryOf(image))
		key := base64.StdEncoding.EncodeToString([]byte(as.User + ":" + as.Password))
		body, err := json.Marshal(map[string]any{"auths": map[string]any{server: map[string]string{"auth": key}}})
		if err != nil {
			return err
		}
		folder, err := os.MkdirTemp(dir, "login-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder) //nolint:errcheck // the attempt's directory goes with it
		file := filepath.Join(folder, "config.json")
		if err := os.WriteFile(file, body, 0o600); err != nil {
			return err
		}
		if e.podman {
			args = []string{"pull", "--authfile", file, image}
		} else {
			args = append([]string{"--config", folder}, args...)
		}
	}
	note("pulling " + image)
	_, err := e.output(ctx, args...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if as.User != "" && refused(err) {
		return fmt.Errorf("%w %s: %w", ErrPull, image, err)
	}
	if _, missing := e.output(ctx, "image", "inspect", image); missing == nil {
		note(fmt.Sprintf("cannot pull %s, taking the one that is here: %v", image, err))
		return nil
	}
	return fmt.Errorf("%w %s: %w", ErrPull, image, err)
}

// Config is what an image says of how it is run.
type Config struct {
	Entrypoint, Cmd []string
	WorkingDir      string
}

// Config is that of an image that is here.
func (e *Engine) Config(ctx context.Context, image string) (Config, error) {
	out, err := e.output(ctx, "image", "inspect", "--format", "{{json .Config}}", image)
	if err != nil {
		return Config{}, fmt.Errorf("cannot inspect %s: %w", image, err)
	}
	var c Config
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		return Config{}, fmt.Errorf("cannot inspect %s: %w", image, err)
	}
	return c, nil
}

// Script is a script that runs what the image runs by itself: its entry point with the arguments that the script is
// given, or with the image's own. It is empty for an image that runs nothing.
func (c Config) Script() string {
	quoted := func(words []string) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(" " + Quote(w))
		}
		return b.String()
	}
	if len(c.Entrypoint)+len(c.Cmd) == 0 {
		return ""
	}
	return "[ $# -gt 0 ] || set --" + quoted(c.Cmd) + "\nexec" + quoted(c.Entrypoint) + " \"$@\"\n"
}

// Home is the home directory of root in an image.
func (e *Engine) Home(ctx context.Context, image string) (string, error) {
	out, err := e.output(ctx, "run", "--rm", "--user", "0:0", "--network", "none", "--entrypoint", "/bin/sh", image,
		"-c", `cd ~ && pwd`)
	if err != nil {
		return "", fmt.Errorf("%w %s: %w", ErrStart, image, err)
	}
	return strings.TrimSpace(out), nil
}

// output runs the engine and returns what it printed. An error has its words.
func (e *Engine) output(ctx context.Context, args ...string) (string, error) {
	var out, words bytes.Buffer
	cmd := e.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &tail{to: &words}
	if err := cmd.Run(); err != nil {
		return "", told(err, words.String())
	}
	return out.String(), nil
}

func (e *Engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...) //nolint:gosec // the engine of this machine
	cmd.Env = e.env
	cmd.WaitDelay = time.Second
	return cmd
}

// told puts what a program said in the place of its exit code: the last line that speaks of an error, where one does,
// as engines tell of each attempt before and of their help after it.
func told(err error, words string) error {
	if words = strings.TrimSpace(words); words == "" {
		return err
	}
	lines := strings.Split(words, "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "rror") {
			return errors.New(line)
		}
	}
	return errors.New(words)
}

// tail keeps the end of what is written to it.
type tail struct{ to *bytes.Buffer }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.to.Write(p)
	if over := t.to.Len() - tailBytes; over > 0 {
		t.to.Next(over)
	}
	return len(p), nil
}

func lookup(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
