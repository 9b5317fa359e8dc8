package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/onmachine"
)

// machineBrokers returns how the commands that open a shell or port on a machine find the broker.
func (a *app) machineBrokers() onmachine.Brokers {
	return onmachine.Brokers{
		Flags: func(c *cobra.Command, state *string) {
			a.brokerFlags(c, state)
			c.ValidArgsFunction = a.completeJob(state, true)
		},
		Find: func(ctx context.Context, state, job string) (onmachine.Broker, string, func() error, error) {
			s, err := a.running(ctx, state, "reach a machine")
			if err != nil {
				return nil, "", nil, err
			}
			id, err := a.job(ctx, s, job)
			if err != nil {
				return nil, "", nil, errors.Join(err, s.Close())
			}
			return s, id, s.Close, nil
		},
	}
}
