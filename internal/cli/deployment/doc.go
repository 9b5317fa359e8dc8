// Package deployment is the command that puts the broker into a cloud, or takes it out.
package deployment

import "github.com/tradewind-broker/tradewind/internal/cli/command"

// app is what the command shares with the others.
type app struct {
	*command.App
	clouds []string // that machines can be bought on
}
