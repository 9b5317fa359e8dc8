// Command tradewind-agent is the agent on a machine: it gets a task from the broker, runs it and moves its data with
// the broker's grants. It contains no cloud SDK and has no permissions itself.
package main

import (
	"fmt"
	"os"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
)

// version is set by the linker.
var version = "dev"

func main() {
	proc.Reexec()
	rsh.Reexec()
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("tradewind-agent", version)
		return
	}
	os.Exit(agent.Main(os.Environ(), version, pool.RunWorker))
}
