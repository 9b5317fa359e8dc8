package broker_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers lists the packages of the broker, lowest first. Each may import only those before it.
var layers = []string{
	"config", "record", "planinput", "poolfit", "recordcache", "attempt", "jobstate", "bid", "session", "txn", "history",
	"pool", "admission", "view", "planner", "inputs", "outbox", ".",
}

const root = "github.com/tradewind-broker/tradewind/internal/broker"

// importsOf lists the imports of a package's files, without its tests.
func importsOf(t *testing.T, layer string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(layer, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(layer, err)
	}
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, path)
		}
	}
	return out
}

func TestImportsFollowLayers(t *testing.T) {
	for i, layer := range layers {
		for _, path := range importsOf(t, layer) {
			below, inside := strings.CutPrefix(path, root)
			if !inside {
				continue
			}
			below = strings.TrimPrefix(below, "/")
			if below == "" {
				below = "."
			}
			if at := slices.Index(layers, below); at < 0 || at >= i {
				t.Errorf("%s imports %s, which is not below it", layer, path)
			}
		}
	}
}

// Decisions about attempts, jobs and sessions are functions of records and a time. Their packages must have no access
// to a store or a clock, and cannot wait.
func TestDecisionPackagesImportNoIO(t *testing.T) {
	outside := []string{
		"context", "os", "net/http", "math/rand", "math/rand/v2", "sync",
		"github.com/tradewind-broker/tradewind/pkg/store", "github.com/tradewind-broker/tradewind/internal/base/clock",
		"github.com/tradewind-broker/tradewind/pkg/bus",
	}
	for _, layer := range []string{"poolfit", "attempt", "jobstate", "session"} {
		for _, path := range importsOf(t, layer) {
			if slices.Contains(outside, path) {
				t.Errorf("%s imports %s", layer, path)
			}
		}
	}
}
