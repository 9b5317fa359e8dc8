package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// CLI is the built command line with its own state folder.
type CLI struct{ Program, State string }

// Env returns the environment in which the command line runs.
func (c CLI) Env() []string { return append(os.Environ(), "TRADEWIND_STATE="+c.State, "NO_COLOR=1") }

// Run runs one command and returns its standard output. An error contains all output.
func (c CLI) Run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Program, args...) //nolint:gosec // the built program
	cmd.Env = c.Env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("tradewind %s: %w\n%s%s", strings.Join(args, " "), err, out.String(),
			errs.String())
	}
	return out.String(), nil
}
