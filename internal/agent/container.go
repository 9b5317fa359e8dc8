package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
)

// Variables with the credentials for the registry of the task's image. The names are SkyPilot's.
const (
	envRegistryServer   = "SKYPILOT_DOCKER_SERVER"
	envRegistryUser     = "SKYPILOT_DOCKER_USERNAME"
	envRegistryPassword = "SKYPILOT_DOCKER_PASSWORD" //nolint:gosec // its name
)

// containerState is the state of a task's container.
type containerState struct {
	engine *container.Engine
	image  string
	home   string // in the container; set when an input first needs it
	mounts map[string]string
	runs   container.Config
	box    *container.Box // nil until staging is done
	kills  int64          // for lack of memory, so far
	named  bool           // it knows the names of the job group
}

// pull finds the machine's container engine, or installs one, and pulls the image. It does nothing if the agent
// already runs in that image, as in a pod.
func (t *attempt) pull(ctx context.Context) error {
	if t.work.Image == "" || t.work.Image == lookup(t.cfg.Environ, EnvInside) {
		return nil
	}
	engine, err := container.Find(ctx, t.cfg.Environ)
	if errors.Is(err, container.ErrNoEngine) && t.cfg.Sole && os.Geteuid() == 0 {
		t.out.note("this machine has no container engine: installing one")
		if installErr := container.Install(ctx, t.cfg.Environ); installErr != nil {
			return fmt.Errorf("%w; installing one: %w", err, installErr)
		}
		engine, err = container.Find(ctx, t.cfg.Environ)
	}
	if err != nil {
		return err
	}
	as := container.Login{
		Server: t.variable(
			envRegistryServer,
		), User: t.variable(envRegistryUser), Password: t.variable(envRegistryPassword),
	}
	image := t.work.Image
	if as.Server != "" && !strings.HasPrefix(image, as.Server+"/") {
		image = as.Server + "/" + image
	}
	t.boxed = &containerState{engine: engine, image: image, mounts: map[string]string{}}
	if err := engine.Pull(ctx, image, as, t.dirs.tmp, t.out.note); err != nil {
		return err
	}
	t.boxed.runs, err = engine.Config(ctx, image)
	return err
}

// variable returns the value of a variable of the task, secret or not.
func (t *attempt) variable(name string) string { return cmp.Or(t.work.Secrets[name], t.work.Env[name]) }

// mountPlace returns the place in which to stage an input that must appear in the container under an absolute path or
// a path below ~.
func (t *attempt) mountPlace(ctx context.Context, p string) (dir, dst string, err error) {
	b := t.boxed
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if b.home == "" {
			if b.home, err = b.engine.Home(ctx, b.image); err != nil {
				return "", "", err
			}
		}
		p = b.home + "/" + rest
	}
	into := strings.HasSuffix(p, "/") // a single file keeps its name there
	p = filepath.Clean(p)
	if there, ok := b.mounts[p]; ok { // several files in one folder
		dir = filepath.Dir(there)
	} else {
		dir = filepath.Join(t.dirs.mounts, strconv.Itoa(len(b.mounts)))
		b.mounts[p] = filepath.Join(dir, filepath.Base(p))
	}
	if dst = filepath.Base(p); into {
		dst += "/"
	}
	return dir, dst, os.MkdirAll(dir, 0o700)
}

// startContainer starts the container, once everything that it uses is staged.
func (t *attempt) startContainer(ctx context.Context) (err error) {
	if t.boxed == nil {
		return nil
	}
	if script := t.boxed.runs.Script(); script != "" {
		if err := os.WriteFile(filepath.Join(t.dirs.scripts, entrypointName), []byte(script), 0o600); err != nil {
			return err
		}
	}
	t.boxed.box, err = t.boxed.engine.Start(ctx, container.Spec{
		Name: boxName(t.work.Attempt, t.claims.Rank), Image: t.boxed.image, Dirs: []string{t.dirs.top},
		Mounts: t.boxed.mounts, Scripts: t.dirs.scripts, GPUs: t.work.Accelerators > 0 && hasNvidia(),
		ShmBytes: memoryBytes() / 2, MemoryBytes: t.work.MemoryBytes, CPUs: t.work.VCPUs,
	})
	return err
}

// Variables that describe the image to its task: a file with a script that runs the image's own entrypoint, and the
// directory in which to run the script. A Kubernetes manifest may specify neither.
const (
	envImageEntrypoint = "TRADEWIND_IMAGE_ENTRYPOINT"
	envImageWorkdir    = "TRADEWIND_IMAGE_WORKDIR"
	entrypointName     = "image-entrypoint"
)

// imageEnv returns the variables that describe the image to its task.
func (t *attempt) imageEnv() map[string]string {
	env := map[string]string{}
	if t.boxed == nil {
		return env
	}
	if dir := t.boxed.runs.WorkingDir; dir != "" {
		env[envImageWorkdir] = dir
	}
	if t.boxed.runs.Script() != "" {
		env[envImageEntrypoint] = filepath.Join(t.dirs.scripts, entrypointName)
	}
	return env
}

// close ends the container.
func (b *containerState) close() {
	if b != nil && b.box != nil {
		b.box.Close()
	}
}

// chownToAgent makes the agent's user the owner of the files that the container's root user wrote.
func (t *attempt) chownToAgent() {
	if uid := os.Geteuid(); uid != 0 && t.boxed.engine.Name() == "docker" {
		dirs := []string{t.dirs.top}
		if len(t.mounts.list) > 0 { // do not change anything in the buckets
			dirs = []string{t.dirs.output, t.dirs.tmp}
			if t.work.Checkpoint != nil {
				dirs = append(dirs, t.checkpointDir())
			}
		}
		if err := t.boxed.box.Chown(uid, os.Getegid(), dirs...); err != nil {
			t.log.Warn("files of the container still belong to root", "err", err)
		}
	}
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// boxName returns a name that is unique among the containers of the machine.
func boxName(attempt string, rank int) string {
	return "tradewind-" + notInName.ReplaceAllString(attempt, "-") + "-" + strconv.Itoa(rank) + "-" +
		strings.ToLower(rand.Text()[:6])
}

// hasNvidia reports whether the machine has GPUs that an engine can pass to a container.
func hasNvidia() bool {
	_, device := os.Stat("/dev/nvidiactl")
	_, program := exec.LookPath("nvidia-smi")
	return device == nil || program == nil
}

// memoryBytes returns the machine's memory in bytes; 0 if it is unknown.
func memoryBytes() int64 {
	body, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(body)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
