package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestGoDocsExampleRuns runs the first program of docs/go.md in a separate module, as a user would, with the tests'
// broker. The module requires the same versions as this one, so that the test downloads nothing.
func TestGoDocsExampleRuns(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		body, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(read("docs/go.md"))
	if program == nil {
		t.Fatal("docs/go.md has no program")
	}
	const here = "github.com/tradewind-broker/tradewind"
	module := regexp.MustCompile(`(?m)^module .*$`).ReplaceAll(read("go.mod"), []byte("module example.org/mine"))
	dir := t.TempDir()
	for name, body := range map[string][]byte{"main.go": program[1], "go.mod": module, "go.sum": read("go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("mod", "edit", "-require", here+"@v0.0.0", "-replace", here+"="+root)
	if got := run("run", "."); got != "10\n" {
		t.Errorf("it prints %q", got)
	}
}
