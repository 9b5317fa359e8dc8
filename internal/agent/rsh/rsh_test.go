package rsh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
)

func TestMain(m *testing.M) {
	rsh.Reexec()
	os.Exit(m.Run())
}

var key = bytes.Repeat([]byte("k"), 32)

// shell runs a command as an agent would.
func shell(ctx context.Context, command string, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = out, out
	_ = cmd.Run() // the exit code is reported separately
	return cmd.ProcessState.ExitCode(), nil
}

// script returns the program by which a launcher reaches a node that is served here with a key.
func script(t *testing.T, with []byte) string {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(rsh.Port(key, t.Name(), 0)))
	if err := rsh.Serve(t.Context(), address, key, shell); err != nil {
		t.Fatal(err)
	}
	hosts, err := json.Marshal(rsh.Hosts{Key: with, Ports: map[string]string{"worker-0": address}})
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(t.TempDir(), "hosts"), filepath.Join(t.TempDir(), "it's rsh")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, hosts, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte(rsh.Script(self, file)), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestLauncherRunsProgramOnAnotherNode(t *testing.T) {
	out, err := exec.Command(script(t, key), "-x", "-p", "22", "worker-0", "echo", "two  words;", "exit", "7").Output()
	if string(out) != "two words\n" {
		t.Errorf("it said %q", out)
	}
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 7 { //nolint:errorlint // of exec alone
		t.Errorf("it ended with %v", err)
	}
}

func TestServeRejectsWrongKey(t *testing.T) {
	out, err := exec.Command(script(t, bytes.Repeat([]byte("x"), 32)), "worker-0", "echo", "hello").CombinedOutput()
	if err == nil || strings.Contains(string(out), "hello") {
		t.Errorf("it said %q", out)
	}
}

func TestClientRejectsUnknownHost(t *testing.T) {
	out, err := exec.Command(script(t, key), "worker-1", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "worker-1 is not a node of this gang") {
		t.Errorf("it said %q", out)
	}
}
