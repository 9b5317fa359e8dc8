package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestBinaryImports checks the imports of binaries. The broker's functions and the agent must not link libraries for
// the command line. No binary may link libraries for plots or numerics, which are larger than the charts that they
// would draw.
func TestBinaryImports(t *testing.T) {
	const here = "github.com/tradewind-broker/tradewind/"
	// Each other cloud has its own function, which may link only that cloud's SDK.
	others, err := exec.Command("go", "list", "../../functions/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	brokers := slices.DeleteFunc(strings.Fields(string(others)), func(p string) bool {
		return strings.Contains(p, "/cloud-") || strings.HasSuffix(p, "/hook")
	})
	for packages, refused := range map[string][]string{
		".":                                 {"gonum.org/"},
		"../../functions/cloud-azure":       {"cloud.google.com/", "google.golang.org/"},
		"../../functions/cloud-gcp":         {"github.com/Azure/"},
		"../../functions/cloud-lambda":      {"github.com/Azure/", "cloud.google.com/", "google.golang.org/"},
		"../../functions/api":               {here + "pkg/optimizer", here + "pkg/catalog/internal", here + "internal/broker/planner"},
		"../../functions/hook":              {"github.com/Azure/", "cloud.google.com/", "google.golang.org/api", here + "internal/grant/ambient"}, // it sends traces
		strings.Join(brokers, " "):          {"github.com/Azure/", "cloud.google.com/", "google.golang.org/", here + "internal/grant/ambient"},
		"../../functions/... ../../pkg/...": {"gonum.org/", here + "internal/base/chart", here + "internal/cli", "github.com/spf13/cobra"},
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
