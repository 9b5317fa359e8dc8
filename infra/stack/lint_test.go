package stack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tools is the installation folder of scripts/emulators.sh.
const tools = "../../.tools/venv/bin"

// The templates pass cfn-lint and the security scanner checkov. Exceptions are listed with their reasons at each resource.
func TestLintersPass(t *testing.T) {
	for _, tool := range []string{"cfn-lint", "checkov"} {
		if _, err := os.Stat(filepath.Join(tools, tool)); err != nil {
			t.Skipf("%s is not installed: `make emulators`", tool)
		}
	}
	out := t.TempDir()
	synthesise(t, func(c *Config) {
		c.Out, c.DataBuckets = out, []string{"imagenet-mini"}
		c.Account, c.Region, c.Regions = "111122223333", "us-east-1", []string{"eu-west-1"}
		managed(t, "emr", "emr-serverless")(c)
	})
	paths, err := filepath.Glob(filepath.Join(out, "*.template.json"))
	if err != nil || len(paths) != 2 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		run(t, "cfn-lint", p)
		// Without a download it has only its built-in checks, which is intended.
		run(t, "checkov", "--file", p, "--framework", "cloudformation", "--quiet", "--compact", "--skip-download")
	}
}

func run(t *testing.T, tool string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(tools, tool), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", tool, err, out)
	}
}
