package cli

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

func TestRunOnRejectsInvalidFlags(t *testing.T) {
	p := newProgram(t)
	file := "../../examples/train-infer.yaml"
	for want, args := range map[string][]string{
		`unknown cloud "awz"`:                 {"--on", "awz"},
		"--on names the clouds already":       {"--on", "aws", "--cloud", "aws"},
		"--away needs a cloud":                {"--away", "30m"},
		"--agents needs --on":                 {"--agents", t.TempDir()},
		"--away: 10s is not between 1m0s":     {"--on", "aws", "--away", "10s"},
		"--away: 13h0m0s is not between 1m0s": {"--on", "aws", "--away", "13h"},
	} {
		r := p.run(append([]string{"run", file}, args...)...)
		if r.code != command.ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit %d, %q is not in\n%s", args, r.code, want, r.err)
		}
	}
	r := p.run("up", "--clouds", "lambda", "--public-url", "https://b.example", "--away", "5m")
	if r.code != command.ExitBadInput || !strings.Contains(r.err, "--away is for brokers without --public-url") {
		t.Errorf("up: exit %d\n%s", r.code, r.err)
	}
	if p.hosts.open != 0 {
		t.Error("a broker was opened")
	}
}

// Without the programs for machines nothing is created in the cloud.
func TestRunOnNeedsAgentsFirst(t *testing.T) {
	p := newProgram(t)
	r := p.run("run", "../../examples/train-infer.yaml", "--yes", "--on", "lambda", "--agents", t.TempDir())
	if r.code != command.ExitBadInput || !strings.Contains(r.err, "packages have it") || strings.Contains(r.err, "setting up") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
}
