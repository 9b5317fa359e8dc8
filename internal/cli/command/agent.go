package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// AgentProgram is the name of the stand-alone agent program.
const AgentProgram = "tradewind-agent"

// versionTimeout is the maximum time for that program to print its version.
const versionTimeout = 5 * time.Second

// Agent returns the command that runs an agent on this computer: the stand-alone agent if one of the same version lies
// next to this program. It starts in a seventh of the time and uses a third of the memory. Nil means this program's own
// agent command.
func (a *App) Agent(ctx context.Context) []string {
	self, err := os.Executable()
	if err != nil || a.Version == Unversioned {
		return nil
	}
	agent := filepath.Join(filepath.Dir(self), AgentProgram)
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, agent, "--version").Output() //nolint:gosec // next to this program
	if err != nil || strings.TrimSpace(string(said)) != AgentProgram+" "+a.Version {
		return nil
	}
	return []string{agent}
}

// Unversioned is the version of a program built without one.
const Unversioned = "dev"
