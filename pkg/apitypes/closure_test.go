package apitypes_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxClientPackages is the maximum number of this module's packages that a program with pkg/client links, including
// pkg/client.
const maxClientPackages = 10

func TestClientLinksNoServer(t *testing.T) {
	const here = "github.com/tradewind-broker/tradewind/"
	out, err := exec.Command("go", "list", "-deps", "../client").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool { return !strings.HasPrefix(p, here) })
	if len(ours) > maxClientPackages {
		t.Errorf("pkg/client links %d packages, more than %d:\n%s", len(ours), maxClientPackages,
			strings.Join(ours, "\n"))
	}
	for _, p := range ours {
		for _, server := range []string{
			"internal/api", "internal/broker", "internal/bus", "internal/cloud", "internal/store", "pkg/bus", "pkg/cloud",
			"pkg/scheduler", "pkg/store",
		} {
			if name := strings.TrimPrefix(p, here); name == server || strings.HasPrefix(name, server+"/") {
				t.Errorf("pkg/client links %s", p)
			}
		}
	}
}
