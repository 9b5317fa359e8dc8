package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWhatTheBinariesCarry keeps out of the broker's functions and the agent what only the command line needs, and out of all binaries
// the plotting and numerics libraries, which are larger than the charts that they would draw.
func TestWhatTheBinariesCarry(t *testing.T) {
	const here = "github.com/tradewind-broker/tradewind/"
	for packages, refused := range map[string][]string{
		".":                                 {"gonum.org/"},
		"../../functions/...":               {"github.com/Azure/", "cloud.google.com/", "google.golang.org/", here + "pkg/grant/ambient"},
		"../../functions/... ../../pkg/...": {"gonum.org/", here + "internal/chart", here + "internal/cli", "github.com/spf13/cobra"},
	} {
		out, err := exec.Command("go", append([]string{"list", "-deps"}, strings.Fields(packages)...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for imported := range strings.Lines(string(out)) {
			for _, r := range refused {
				if strings.HasPrefix(imported, r) {
					t.Errorf("%s imports %s", packages, imported)
				}
			}
		}
	}
}
