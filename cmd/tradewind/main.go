// Command tradewind is the broker, its command line, and the agent on its machines.
package main

import (
	"os"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/pool"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/rsh"
	"github.com/tradewind-broker/tradewind/internal/base/gcpause"
	"github.com/tradewind-broker/tradewind/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	gcpause.End(50 * time.Millisecond)
	proc.Reexec()
	rsh.Reexec()
	// One computer may start hundreds of machines, so an agent does not build the command line.
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		os.Exit(agent.Main(os.Environ(), version, pool.RunWorker))
	}
	os.Exit(cli.Main(version, support()))
}
