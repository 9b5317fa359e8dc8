package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/suspending"
)

// suspended returns how the suspend and resume commands find their broker.
func (a *app) suspended() suspending.Brokers {
	return suspending.Brokers{
		Flags: func(c *cobra.Command, state *string) {
			a.brokerFlags(c, state)
			c.ValidArgsFunction = a.completeJob(state, false)
		},
		Find: func(ctx context.Context, state string) (*suspending.Found, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, err
			}
			f := &suspending.Found{Asked: s, Close: s.Close,
				Job: func(ctx context.Context, name string) (string, error) { return a.job(ctx, s, name) }}
			if s.passive {
				f.Where = s.state
			}
			return f, nil
		},
	}
}
