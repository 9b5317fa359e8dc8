// Package watching is what the commands markets and usage do once a broker is found: what spot machines cost and are
// expected to, and what queues held.
package watching

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Asked is what is asked of a broker.
type Asked interface {
	Markets(ctx context.Context) (*apitypes.MarketList, error)
	Usage(ctx context.Context, last time.Duration) (*apitypes.UsageView, error)
}

// Brokers finds the broker that a command is for.
type Brokers struct {
	Flags func(c *cobra.Command, state *string) // those by which it is found
	Find  func(ctx context.Context, state string) (asked Asked, done func() error, err error)
}

// Commands are markets and usage.
func Commands(app *command.App, brokers Brokers) []*cobra.Command {
	return []*cobra.Command{marketsCommand(app, brokers), usageCommand(app, brokers)}
}

// command completes one of them: do asks a broker that was found and tells what it says.
func (b Brokers) command(app *command.App, c *cobra.Command, do func(context.Context, Asked) error) {
	var state string
	b.Flags(c, &state)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := app.Stop.Context(c.Context())
		defer cancel()
		asked, done, err := b.Find(ctx, state)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, asked), done())
	}
}
