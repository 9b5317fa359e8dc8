package gang

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The agent has copies of these names, so that it need not link the job model. They must be spelled as in job files.
func TestFrameworksAndRolesAreSpelledAsInJobFiles(t *testing.T) {
	for word := range heads {
		if err := dag.Framework(word).Check(); err != nil {
			t.Error(err)
		}
	}
	for _, role := range []string{"worker", "a-z", "Az09", "ps.1", "ä`{@[/:"} {
		if got, want := roleVariable(role), dag.RoleVariable(role); got != want {
			t.Errorf("role %q is %s on a machine and %s in a job file", role, got, want)
		}
	}
}
