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
	// ErrNoEngine means that neither docker nor podman works on this machine.
	ErrNoEngine = errors.New("no container engine")
	// ErrPull means that the image cannot be pulled. The error's text contains the engine's or the registry's
	// message.
	ErrPull = errors.New("cannot pull")
	// ErrStart means that the container did not start, for example because the image has no shell.
	ErrStart = errors.New("cannot start")
)

// EngineEnv names the engine to use: docker, podman or a path. If it is not set, the first of docker and podman that
// works is used.
const EngineEnv = "TRADEWIND_CONTAINER_ENGINE"

// Engine is docker or podman.
type Engine struct {
	path   string
	env    []string // of the engine itself, not of tasks
	podman bool
}

// answersWithin is the maximum time for an engine to answer.
const answersWithin = 20 * time.Second

// Find returns the machine's engine. environ is the agent's environment, which states where programs and daemons are.
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
		_, err = e.output(asked, "info", "--format", "{{json .}}") // fails if the client has no daemon
		cancel()
		if err == nil {
			return e, nil
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", name, err))
	}
	return nil, fmt.Errorf("%w: install docker or podman, or set %s: %w", ErrNoEngine, EngineEnv, why)
}

// Name returns docker or podman.
func (e *Engine) Name() string {
	if e.podman {
		return "podman"
	}
	return "docker"
}

// Login has the credentials for a registry. If Server is empty, they are for the image's own registry. The zero Login
// is anonymous.
type Login struct{ Server, User, Password string }

// hub is the registry from which docker pulls images without a registry in their name.
const hub = "https://index.docker.io/v1/"

// registryOf returns the registry whose login an image needs. It is the part before the first slash if that is a
// host, and otherwise docker's own (github.com/distribution/reference, "Grammar").
func registryOf(image string) string {
	host, _, more := strings.Cut(image, "/")
	if more && (strings.ContainsAny(host, ".:") || host == "localhost") && host != "docker.io" {
		return host
	}
	return hub
}

// deniedMessages are parts of engines' messages that mean that the registry answered and refused access to the image.
var deniedMessages = []string{"unauthorized", "authentication required", "denied", "invalid username/password"}

func isDenied(err error) bool {
	said := strings.ToLower(err.Error())
	return slices.ContainsFunc(deniedMessages, func(words string) bool { return strings.Contains(said, words) })
}

// Pull pulls an image. If the registry does not answer, or if there is no login, an image that is already on the
// machine is used. A refused login is an ErrPull even if the machine has the image, because it may have been pulled
// for another user. The engine gets the login in a file in dir, which is removed again. Progress is logged with note.
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
	if as.User != "" && isDenied(err) {
		return fmt.Errorf("%w %s: %w", ErrPull, image, err)
	}
	if _, missing := e.output(ctx, "image", "inspect", image); missing == nil {
		note(fmt.Sprintf("cannot pull %s, using the image that is on this machine: %v", image, err))
		return nil
	}
	return fmt.Errorf("%w %s: %w", ErrPull, image, err)
}

// Config is an image's configuration of how to run it.
type Config struct {
	Entrypoint, Cmd []string
	WorkingDir      string
}

// Config returns the configuration of an image that is on the machine.
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

// Script returns a script that runs the image's entrypoint with the script's arguments or, if there are none, with
// the image's own. It is empty if the image has no entrypoint or command.
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

// Home returns the home directory of root in an image.
func (e *Engine) Home(ctx context.Context, image string) (string, error) {
	out, err := e.output(ctx, "run", "--rm", "--user", "0:0", "--network", "none", "--entrypoint", "/bin/sh", image,
		"-c", `cd ~ && pwd`)
	if err != nil {
		return "", fmt.Errorf("%w %s: %w", ErrStart, image, err)
	}
	return strings.TrimSpace(out), nil
}

// output runs the engine and returns its output. An error contains the engine's message.
func (e *Engine) output(ctx context.Context, args ...string) (string, error) {
	var out, words bytes.Buffer
	cmd := e.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &tail{to: &words}
	if err := cmd.Run(); err != nil {
		return "", withMessage(err, words.String())
	}
	return out.String(), nil
}

func (e *Engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...) //nolint:gosec // the engine of this machine
	cmd.Env = e.env
	cmd.WaitDelay = time.Second
	return cmd
}

// withMessage replaces the exit code in err by the program's message: its last line that mentions an error, or its
// whole output if no line does. Other lines are left out because engines print earlier tries before the error, and
// their help after it.
func withMessage(err error, words string) error {
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

// tail is a writer that keeps only the end of its input.
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
