package base_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers lists the parts of the module, lowest first. A package may import only packages of its own layer and of
// lower ones. The longest matching prefix determines the layer of a package.
var layers = [][]string{
	{"internal/base"},
	{
		"events", "pkg", "internal/bidding", "internal/catalog", "internal/optimizer", "internal/placement",
		"internal/scheduler", "internal/localfiles", "internal/metrics", "internal/pack", "internal/readable",
		"internal/tunnel", "deploy", "web",
	},
	{
		"internal/agent", "internal/bus", "internal/cloud", "internal/cloudkit", "internal/emulator", "internal/grant",
		"internal/identity", "internal/kubeapi", "internal/notify", "internal/secret", "internal/store",
	},
	{"internal/broker", "internal/api", "internal/tes"},
	{
		"internal/host", "internal/lambdahost", "internal/sim", "internal/deploy", "internal/kubedeploy", "internal/kubejobs",
		"internal/dagbucket", "internal/cost", "internal/traces",
	},
	{"internal/cli"},
	{"internal/lab", "internal/rehearsal", "cmd", "functions", "localstack"},
}

func layerOf(pkg string) int {
	layer, longest := -1, -1
	for i, prefixes := range layers {
		for _, p := range prefixes {
			if (pkg == p || strings.HasPrefix(pkg, p+"/")) && len(p) > longest {
				layer, longest = i, len(p)
			}
		}
	}
	return layer
}

func TestImportsPointDownwards(t *testing.T) {
	const module = "github.com/tradewind-broker/tradewind/"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		from := layerOf(pkg)
		imported := slices.DeleteFunc(fields[1:], func(p string) bool { return !strings.HasPrefix(p, module) })
		for _, p := range imported {
			if p = strings.TrimPrefix(p, module); from >= 0 && layerOf(p) > from {
				t.Errorf("%s imports %s, which is in a layer above", pkg, p)
			}
		}
	}
}
