// Package lab is the laboratory of the command line: the commands that need no broker, only the library that they try:
// placement, back-tests, recorded prices, the wind tunnel and the simulator.
package lab

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is what the laboratory's commands share.
type app struct{ *command.App }
