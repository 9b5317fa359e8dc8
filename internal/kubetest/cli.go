package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// CLI is the command line as it was built, on a state folder of its own.
type CLI struct{ Program, State string }

// Env is the environment in which it runs.
func (c CLI) Env() []string { return append(os.Environ(), "TRADEWIND_STATE="+c.State, "NO_COLOR=1") }

// Run runs one command and returns what it printed; an error has all that it said.
func (c CLI) Run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Program, args...) //nolint:gosec // as it was built
	cmd.Env = c.Env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("tradewind %s: %w\n%s%s", strings.Join(args, " "), err, out.String(),
			errs.String())
	}
	return out.String(), nil
}
