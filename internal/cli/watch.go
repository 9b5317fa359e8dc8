package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// WatchBroker is the part of a broker's API that the commands need.
type WatchBroker interface {
	Markets(ctx context.Context) (*apitypes.MarketList, error)
	Usage(ctx context.Context, last time.Duration) (*apitypes.UsageView, error)
	Machines(ctx context.Context, ended bool) (*apitypes.MachineList, error)
}

// WatchBrokers finds the broker for a command.
type WatchBrokers struct {
	Flags func(c *cobra.Command, state *string) // adds the flags that choose the broker
	Find  func(ctx context.Context, state string) (asked WatchBroker, done func() error, err error)
}

// WatchCommands returns machines, markets and usage.
func WatchCommands(app *command.App, brokers WatchBrokers) []*cobra.Command {
	return []*cobra.Command{machinesCommand(app, brokers), marketsCommand(app, brokers), usageCommand(app, brokers)}
}

// command completes one of them: do queries the broker and prints the result.
func (b WatchBrokers) command(app *command.App, c *cobra.Command, do func(context.Context, WatchBroker) error) {
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
