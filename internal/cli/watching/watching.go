// Package watching implements markets and usage on top of a broker connection: prices and forecasts of spot machines,
// and the capacity that queues held.
package watching

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Broker is the part of a broker's API that the commands need.
type Broker interface {
	Markets(ctx context.Context) (*apitypes.MarketList, error)
	Usage(ctx context.Context, last time.Duration) (*apitypes.UsageView, error)
}

// Brokers finds the broker for a command.
type Brokers struct {
	Flags func(c *cobra.Command, state *string) // adds the flags that choose the broker
	Find  func(ctx context.Context, state string) (asked Broker, done func() error, err error)
}

// Commands returns markets and usage.
func Commands(app *command.App, brokers Brokers) []*cobra.Command {
	return []*cobra.Command{marketsCommand(app, brokers), usageCommand(app, brokers)}
}

// command completes one of them: do queries the broker and prints the result.
func (b Brokers) command(app *command.App, c *cobra.Command, do func(context.Context, Broker) error) {
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
