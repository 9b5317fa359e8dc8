// Package lab is the program tradewind-lab: research tools that need no broker. They measure the libraries (placement,
// bidding, optimizer, parallel schedulers) and run the broker in the simulator. The main program links none of it.
package lab

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is the shared state of the commands of one run.
type app struct{ *command.App }
