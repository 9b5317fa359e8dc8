package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// suspendBrokers returns how the suspend and resume commands find their broker.
func (a *app) suspendBrokers() SuspendBrokers {
	return SuspendBrokers{
		Flags: func(c *cobra.Command, state *string) {
			a.brokerFlags(c, state)
			c.ValidArgsFunction = a.completeJob(state, false)
		},
		Find: func(ctx context.Context, state string) (*Target, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, err
			}
			f := &Target{SuspendBroker: s, Close: s.Close,
				Job:    func(ctx context.Context, name string) (string, error) { return a.job(ctx, s, name) },
				Detail: s.Job}
			if s.passive {
				f.StoppedState = s.state
			}
			return f, nil
		},
	}
}
