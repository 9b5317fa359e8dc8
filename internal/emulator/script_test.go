package emulator_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runScript runs emulators.sh with only the named programs in PATH.
func runScript(t *testing.T, tools string, programs []string, args ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // flock is not available on all systems
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	cmd := exec.CommandContext(t.Context(), bash, append([]string{filepath.Join("..", "..", "scripts", "emulators.sh")}, args...)...)
	cmd.Env = []string{"PATH=" + bin, "TRADEWIND_TOOLS=" + tools}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("emulators.sh: %v\n%s", err, out)
	}
	return string(out)
}

var basics = []string{"cat", "dirname", "grep", "mkdir", "rmdir", "rm", "tr", "tail", "sleep", "flock"}

func TestScriptReportsSkippedTools(t *testing.T) {
	tools := filepath.Join(t.TempDir(), "tools")
	out := runScript(t, tools, basics)
	for _, want := range []string{"skipped DynamoDB Local: not found: java mvn", "skipped moto, cfn-lint and checkov: no Python"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	out = runScript(t, tools, basics, "--check")
	for _, want := range []string{"DynamoDB Local is not installed", "checkov is not installed"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output of --check lacks %q:\n%s", want, out)
		}
	}
}
