package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
)

// overSSH measures OpenSSH with a new server on loopback and a new key.
func overSSH(ctx context.Context, dir, _ string, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", //nolint:gosec // ours
			path(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	free, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(free)
	// The server needs an absolute path and its privilege separation folder.
	_ = os.MkdirAll("/run/sshd", 0o755) //nolint:gosec // the same as on Debian
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd" // not in the users' PATH
	}
	if _, err := os.Stat(sshd); err != nil {
		return nil, errors.New("sshd is not installed: install openssh-server")
	}
	server := exec.CommandContext(ctx, sshd, "-D", "-e", "-f", "/dev/null", "-p", port, "-h", path("host"), //nolint:gosec // ours
		"-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+path("user.pub"), "-o", "StrictModes=no",
		"-o", "PidFile=none", "-o", "UsePAM=no")
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer server.Wait() //nolint:errcheck // it is killed
	defer cancel()
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return measureEcho(exec.CommandContext(ctx, "ssh", "-T", "-p", port, "-i", path("user"), //nolint:gosec // ours
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"127.0.0.1", "cat"), n)
}
