// Package deployment is the command that deploys the broker to a cloud or cluster, or removes it.
package deployment

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is the shared state of the commands.
type app struct {
	*command.App
	clouds []string // clouds that machines can be bought on
}
