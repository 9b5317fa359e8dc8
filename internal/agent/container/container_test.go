package container_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
)

// box starts a container and returns it with its engine and a temporary directory.
func box(t *testing.T, spec container.Spec) (*container.Engine, *container.Box, string) {
	t.Helper()
	e, err := container.Find(t.Context(), containertest.Environ(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spec.Name, spec.Image = "tradewind-test-"+strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), containertest.Image
	spec.Dirs, spec.Scripts = []string{dir}, dir
	b, err := e.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return e, b, dir
}

// run runs a script in the container to its end.
func run(t *testing.T, b *container.Box, dir, text string, env ...string) (out string, code int) {
	t.Helper()
	cmd := start(t, b, dir, text, env...)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.Stdout.(*bytes.Buffer).String(), cmd.ProcessState.ExitCode() //nolint:forcetypeassert // as start made it
}

func start(t *testing.T, b *container.Box, dir, text string, env ...string) *exec.Cmd {
	t.Helper()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	argv, err := b.Command(script, dir, env)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = b.Env(), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestScriptsRunInImageAndShareFiles(t *testing.T) {
	_, b, dir := box(t, container.Spec{ShmBytes: 32 << 20})
	out, code := run(t, b, dir, "cat /etc/image; touch /installed; pwd; echo \"$GREETING\"; env | grep -c '^two words' ; df -m /dev/shm | tail -1 | awk '{print $2}'; exit 7",
		"GREETING=it's\nnice", "two words=x", "A-B=c")
	if want := "busybox\n" + dir + "\nit's\nnice\n0\n32\n"; out != want || code != 7 {
		t.Errorf("exit code %d and %q, want 7 and %q", code, out, want)
	}
	// The second script sees the programs that the first one installed in the container. The machine sees the files
	// that the scripts wrote.
	out, code = run(t, b, dir, "ls /installed && echo done > here")
	if body, err := os.ReadFile(filepath.Join(dir, "here")); out != "/installed\n" || code != 0 || string(body) != "done\n" || err != nil {
		t.Errorf("%q, exit code %d, %q, %v", out, code, body, err)
	}
}

func TestTerminateSignalsEveryProcessThenKills(t *testing.T) {
	_, b, dir := box(t, container.Spec{})
	cmd := start(t, b, dir, `(trap 'echo child is told; exit' TERM; touch child; while :; do sleep 0.05; done) &
trap 'echo told; wait; exit 3' TERM
while [ ! -e child ]; do sleep 0.05; done; touch ready
while :; do sleep 0.05; done`)
	await(t, filepath.Join(dir, "ready"))
	b.End(time.Minute)
	_ = cmd.Wait()
	out := cmd.Stdout.(*bytes.Buffer).String() //nolint:forcetypeassert // as start made it
	if !strings.Contains(out, "told\n") || !strings.Contains(out, "child is told\n") || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d, %q", cmd.ProcessState.ExitCode(), out)
	}
	// A process that ignores SIGTERM is killed. The container stays for the next script.
	cmd = start(t, b, dir, `trap '' TERM; touch deaf; while :; do sleep 0.05; done`)
	await(t, filepath.Join(dir, "deaf"))
	b.End(200 * time.Millisecond)
	if _ = cmd.Wait(); container.SignalOf(cmd.ProcessState.ExitCode()) != 9 {
		t.Errorf("exit code %d", cmd.ProcessState.ExitCode())
	}
	if out, _ := run(t, b, dir, "echo still here"); out != "still here\n" {
		t.Errorf("after that: %q", out)
	}
}

func TestContainerEndsWithItsOwner(t *testing.T) {
	e, b, dir := box(t, container.Spec{})
	cmd := start(t, b, dir, `touch busy; while :; do sleep 0.05; done`)
	await(t, filepath.Join(dir, "busy"))
	b.Close()
	_ = cmd.Wait()
	if _, err := e.Start(t.Context(), container.Spec{Name: "tradewind-test-" + strings.ToLower(t.Name()), Image: containertest.Image, Scripts: dir}); err != nil {
		t.Errorf("its name is still in use: %v", err)
	}
}

func TestStartReportsContainerErrors(t *testing.T) {
	environ := containertest.Environ(t)
	e, err := container.Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(string) {}
	if err := e.Pull(t.Context(), "127.0.0.1:1/no/such:image", container.Login{}, t.TempDir(), nothing); !errors.Is(err, container.ErrPull) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no registry: %v", err)
	}
	if err := e.Pull(t.Context(), containertest.Image, container.Login{}, t.TempDir(), nothing); err != nil {
		t.Errorf("an image that is on the machine: %v", err)
	}
	if home, err := e.Home(t.Context(), containertest.Image); home != "/root" || err != nil {
		t.Errorf("home %q, %v", home, err)
	}
	dir := t.TempDir()
	if _, err := e.Start(t.Context(), container.Spec{Name: "x", Image: containertest.Image, Dirs: []string{"/no/such/folder"}, Scripts: dir}); !errors.Is(err, container.ErrStart) || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("no folder: %v", err)
	}
	if _, err := container.Find(t.Context(), []string{container.EngineEnv + "=/no/such/engine"}); !errors.Is(err, container.ErrNoEngine) {
		t.Errorf("no engine: %v", err)
	}
}

func await(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
