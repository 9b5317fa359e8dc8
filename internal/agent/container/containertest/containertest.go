// Package containertest provides an engine and a small image for tests that run containers.
package containertest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Image is the name of an image that contains only busybox.
const Image = "localhost/tradewind-test:busybox"

// limits are settings with which podman works in a confined environment.
const limits = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`

// Environ returns an environment in which container.Find finds an engine that has Image. It skips the test if podman,
// runc or busybox is missing.
func Environ(t testing.TB) []string {
	t.Helper()
	for _, program := range []string{"podman", "runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			emulator.Missing(t, "containers are not tested: %v (Debian: podman, runc, busybox-static)", err)
		}
	}
	conf := filepath.Join(t.TempDir(), "containers.conf")
	if err := os.WriteFile(conf, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "CONTAINERS_CONF="+conf, container.EngineEnv+"=podman")
	load(t, environ)
	return environ
}

// load creates the image if it is missing.
func load(t testing.TB, environ []string) {
	t.Helper()
	podman := func(stdin *bytes.Buffer, args ...string) error {
		cmd := exec.Command("podman", args...) //nolint:gosec // the test's own
		cmd.Env = environ
		if stdin != nil {
			cmd.Stdin = stdin
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return err
	}
	var err error
	if podman(nil, "image", "exists", Image) != nil {
		err = podman(busybox(t), "import", "-", Image)
	}
	if err == nil {
		err = podman(nil, "run", "--rm", "--network", "host", Image, "/bin/true")
	}
	if err != nil {
		emulator.Missing(t, "containers are not tested: podman does not work here: %v", err)
	}
}

// busybox returns a root file system with busybox as a tar.
func busybox(t testing.TB) *bytes.Buffer {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path) //nolint:gosec // found in PATH
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command(path, "--list").Output() //nolint:gosec // found in PATH
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, body []byte) {
		h.Size = int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "root/", "tmp/", "proc/", "dev/", "sys/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	add(tar.Header{Name: "etc/image", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("busybox\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}
