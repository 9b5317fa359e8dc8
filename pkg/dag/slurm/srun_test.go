package slurm

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// testdata/srun-values.txt lists the options of srun whose value may be the next word: all with a = in the manual of
// Slurm (doc/man/man1/srun.1, commit 284c3b95f08a). srun must skip both words, and check refuses some before.
func TestSrunSkipsValuesOfOptions(t *testing.T) {
	names, err := os.ReadFile("testdata/srun-values.txt")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(srun) {
		if before, after, found := strings.Cut(strings.TrimSpace(line), ") "); found && strings.Contains(after, "shift 2 ;;") {
			patterns = append(patterns, strings.Split(before, "|")...)
		}
	}
	optional := []string{"kill-on-bad-exit", "pty"} // their values come after a = only
	for _, name := range strings.Fields(string(names)) {
		refused := slices.ContainsFunc(refusedInStep, func(o struct{ option, why, instead string }) bool {
			return strings.HasPrefix("--"+name, o.option)
		})
		known := slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, "--"+name)
			return ok && err == nil
		})
		if !refused && !known && !slices.Contains(optional, name) && !strings.HasPrefix(name, "container") {
			t.Errorf("the value of --%s would count as the program", name)
		}
	}
}
