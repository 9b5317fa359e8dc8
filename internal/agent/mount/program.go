package mount

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Version is the minimum version of rclone, and the version that deployments offer to machines without one.
const Version = "v1.76.0"

// ProgramEnv is the variable with the path of the rclone to use. If it is not set, the one in PATH is used.
const ProgramEnv = "TRADEWIND_RCLONE"

// Find returns the path of the machine's rclone. It returns ErrNoProgram if rclone is missing or too old.
func Find(ctx context.Context, environ []string) (string, error) {
	name := lookup(environ, ProgramEnv)
	if name == "" {
		name = "rclone"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: mounts need rclone %s or newer: install it (https://rclone.org/install) or set %s",
			ErrNoProgram, Version, ProgramEnv)
	}
	return path, checkVersion(ctx, path)
}

var versionLine = regexp.MustCompile(`^rclone (v[0-9]+\.[0-9]+\.[0-9]+\S*)`)

const answersWithin = 30 * time.Second

// checkVersion returns an error if a program is not rclone, or too old.
func checkVersion(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	found := versionLine.FindSubmatch(bytes.TrimSpace(out))
	if err != nil || found == nil {
		return fmt.Errorf("%w: %s does not print its version", ErrNoProgram, path)
	}
	if !atLeast(string(found[1]), Version) {
		return fmt.Errorf(
			"%w: %s is %s, and mounts need %s or newer: install it (https://rclone.org/install) or set %s",
			ErrNoProgram, path, found[1], Version, ProgramEnv)
	}
	return nil
}

// atLeast reports whether version have is want or newer.
func atLeast(have, want string) bool {
	h, w := numbers(have), numbers(want)
	for i := range h {
		if h[i] != w[i] {
			return h[i] > w[i]
		}
	}
	return true
}

func numbers(version string) (out [3]int) {
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", len(out)) {
		digits, _, _ := strings.Cut(part, "-")
		out[i], _ = strconv.Atoi(digits) // 0 if it is not a number
	}
	return out
}

// CheckFUSE returns ErrNoFUSE if this machine cannot mount.
func CheckFUSE() error {
	switch device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); {
	case errors.Is(err, fs.ErrPermission): // FUSE's helper opens it with the permissions of its caller
		return fmt.Errorf("%w: this user cannot open /dev/fuse; root can allow it for all users (chmod 0666 /dev/fuse)",
			ErrNoFUSE)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it has no /dev/fuse", ErrNoFUSE)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoFUSE, err)
	default:
		_ = device.Close() // only opened to check that it works
	}
	for _, name := range helpers() {
		if _, err := exec.LookPath(name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: fusermount3 is missing: install the package fuse3", ErrNoFUSE)
}

// installScript installs FUSE's helper with the machine's package manager.
const installScript = `set -e
modprobe fuse || true
if command -v apt-get; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends fuse3
elif command -v dnf; then
  dnf install -y -q fuse3
elif command -v yum; then
  yum install -y -q fuse3 || yum install -y -q fuse
elif command -v zypper; then
  zypper --non-interactive install fuse3
else
  echo "no known package manager" >&2
  exit 1
fi
`

const installWithin = 10 * time.Minute

// InstallFUSE installs the parts that CheckFUSE reports missing. It needs root, and must only be used on a machine with
// a single task.
func InstallFUSE(ctx context.Context, environ []string) error {
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", installScript)
	cmd.Env, cmd.WaitDelay = environ, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("install fuse3: %w: %s", err, lines[len(lines)-1])
	}
	return CheckFUSE()
}

// maxProgram is the maximum size of a download, several times that of rclone.
const maxProgram = 512 << 20

// Fetch downloads rclone from a URL into a directory, unless it is already there. It checks its digest (SHA-256,
// hexadecimal) and version, and returns its path.
func Fetch(ctx context.Context, client *http.Client, dir, url, digest string) (string, error) {
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%w: the broker sent no valid digest", ErrNoProgram)
	}
	path := filepath.Join(dir, "rclone-"+digest)
	if has, err := digestOf(path); err == nil && has == digest {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	part, err := os.CreateTemp(dir, "rclone-*.part")
	if err != nil {
		return "", err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // once complete it was renamed
	err = errors.Join(download(ctx, client, url, part), part.Chmod(0o700), part.Close())
	if err != nil {
		return "", fmt.Errorf("%w: download: %w", ErrNoProgram, err)
	}
	if has, err := digestOf(part.Name()); err != nil || has != digest {
		return "", errors.Join(
			fmt.Errorf("%w: the download has the digest %s, not %s", ErrNoProgram, has, digest), err)
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return "", err
	}
	return path, checkVersion(ctx, path)
}

func download(ctx context.Context, client *http.Client, url string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("invalid URL")
	}
	resp, err := client.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(to, io.LimitReader(resp.Body, maxProgram))
	return grant.Redact(err)
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // of the agent's own directory
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func lookup(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
