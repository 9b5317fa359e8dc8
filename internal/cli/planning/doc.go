// Package planning contains the commands that plan and look things up without a broker: plan, cost, the commands of the
// catalogue, and those that convert job files.
package planning

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is the shared state of the commands.
type app struct{ *command.App }
