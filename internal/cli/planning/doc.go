// Package planning is the part of the command line that plans and looks up, without a broker: plan, optimize, cost, the
// catalogue's commands, and those that convert job files.
package planning

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is what the commands share.
type app struct{ *command.App }
