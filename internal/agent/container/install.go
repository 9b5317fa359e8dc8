package container

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"
)

// installScript installs an engine with the machine's package manager: Debian's and Ubuntu's, Amazon's, Red Hat's or
// SUSE's.
const installScript = `set -e
if command -v apt-get; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq podman
elif command -v dnf; then
  dnf install -y -q docker || dnf install -y -q podman
elif command -v yum; then
  yum install -y -q docker
elif command -v zypper; then
  zypper --non-interactive install podman
else
  echo "no known package manager" >&2
  exit 1
fi
if ! command -v podman && command -v systemctl; then
  systemctl start docker
fi
`

// installWithin is the maximum time for an installation.
const installWithin = 10 * time.Minute

// Install installs an engine. It needs root, and must be called only on a machine with a single task.
func Install(ctx context.Context, environ []string) error {
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	var words bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", installScript)
	cmd.Env, cmd.Stderr, cmd.WaitDelay = environ, &tail{to: &words}, time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install: %w", withMessage(err, words.String()))
	}
	return nil
}
