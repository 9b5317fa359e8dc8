package container_test

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Ada's password and its bcrypt hash. The registry accepts only bcrypt.
const (
	password = "correct horse"
	hashed   = "$2a$04$A8SA40kmgnmyJ.0M.qImBuCp2MLAa7xrVVT5sjlwfoBTJvZ07Bg16" //nolint:gosec // of the test's own
)

// registry starts a real registry that requires Ada's login. It returns the registry's address, and an environment in
// which the engine connects to it without TLS.
func registry(t *testing.T, environ []string) (addr string, withIt []string) {
	t.Helper()
	tools, err := emulator.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(tools, "bin", "registry")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("logins at registries are not tested: %v (make registry)", err)
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	_ = l.Close()
	for name, body := range map[string]string{
		"htpasswd": "ada:" + hashed + "\n",
		"registries.conf": "unqualified-search-registries = []\n[[registry]]\nlocation = \"" + addr +
			"\"\ninsecure = true\n",
		"config.yml": "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: " + dir + "/store}}\n" +
			"http: {addr: '" + addr + "'}\nauth: {htpasswd: {realm: test, path: " + dir + "/htpasswd}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", filepath.Join(dir, "config.yml")) //nolint:gosec // ours
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + addr + "/v2/") //nolint:noctx // of a test
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode != http.StatusUnauthorized {
				t.Fatalf("it requires no login: %s", res.Status)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	return addr, append(environ, "CONTAINERS_REGISTRIES_CONF="+filepath.Join(dir, "registries.conf"))
}

// TestRegistryLogin: an authorised user can pull an image, and other users get the registry's reason. No file with
// the password may remain.
func TestRegistryLogin(t *testing.T) {
	addr, environ := registry(t, containertest.Environ(t))
	image := addr + "/team/private:1"
	podman := func(args ...string) {
		cmd := exec.Command("podman", args...) //nolint:gosec // the test's own
		cmd.Env = environ
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	podman("push", "--creds", "ada:"+password, containertest.Image, image)
	e, err := container.Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var notes strings.Builder
	pull := func(as container.Login) error {
		return e.Pull(t.Context(), image, as, dir, func(line string) { notes.WriteString(line + "\n") })
	}
	for who, as := range map[string]container.Login{
		"nobody": {}, "a wrong password": {User: "ada", Password: "wrong horse"},
	} {
		err := pull(as)
		if !errors.Is(err, container.ErrPull) || !strings.Contains(err.Error(), "authentication required") &&
			!strings.Contains(err.Error(), "unauthorized") {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := pull(container.Login{User: "ada", Password: password}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { podman("image", "rm", image) })
	if err := pull(container.Login{Server: addr, User: "ada", Password: password}); err != nil {
		t.Errorf("with the server named: %v", err)
	}
	// The image is now on the machine, but a pull still needs a valid login.
	if err := pull(container.Login{User: "ada", Password: "wrong horse"}); !errors.Is(err, container.ErrPull) {
		t.Errorf("a wrong password was accepted: %v", err)
	}
	if strings.Contains(notes.String(), "horse") {
		t.Errorf("it was told: %s", notes.String())
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
