// Command tradewind-lab contains Tradewind's research tools: back-tests, the optimizer, placement, the wind tunnel and
// the simulator.
package main

import (
	"os"

	"github.com/tradewind-broker/tradewind/internal/lab"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(lab.Main(version)) }
