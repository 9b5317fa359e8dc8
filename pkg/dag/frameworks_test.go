package dag_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestRoleVariable(t *testing.T) {
	for role, want := range map[string]string{
		"worker": "WORKER", "a-z": "A_Z", "Az09": "AZ09", "ps.1": "PS_1", "ä`{@[/:": "_______",
	} {
		if got := dag.RoleVariable(role); got != want {
			t.Errorf("role %q is %s, not %s", role, got, want)
		}
	}
}

func TestCheckRejectsUnknownFramework(t *testing.T) {
	if err := dag.Ray.Check(); err != nil {
		t.Error(err)
	}
	if err := dag.Framework("pytorhc").Check(); err == nil || !strings.Contains(err.Error(), "pytorch") {
		t.Error(err)
	}
}
