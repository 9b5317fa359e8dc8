package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// AgentProgram is the name of the agent as a program of its own.
const AgentProgram = "tradewind-agent"

// agentSays is how long that program may take to say its version.
const agentSays = 5 * time.Second

// Agent is the command of the agent for machines on this computer: the program that is nothing else, where one of this
// version lies beside this program. It begins in a seventh of the time, and takes a third of the memory. Nil is this
// program's own agent command.
func (a *App) Agent(ctx context.Context) []string {
	self, err := os.Executable()
	if err != nil || a.Version == Unversioned {
		return nil
	}
	agent := filepath.Join(filepath.Dir(self), AgentProgram)
	ctx, cancel := context.WithTimeout(ctx, agentSays)
	defer cancel()
	said, err := exec.CommandContext(ctx, agent, "--version").Output() //nolint:gosec // beside this program
	if err != nil || strings.TrimSpace(string(said)) != AgentProgram+" "+a.Version {
		return nil
	}
	return []string{agent}
}

// Unversioned is the version of a program whose builder gave it none.
const Unversioned = "dev"
