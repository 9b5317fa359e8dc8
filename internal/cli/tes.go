package cli

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
)

// tesBrokers returns how the tes command finds its broker.
func (a *app) tesBrokers() loopback.TESBrokers {
	return loopback.TESBrokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (loopback.Broker, string, func() error, error) {
			s, err := a.running(ctx, state, "run")
			if err != nil {
				return nil, "", nil, err
			}
			return s, s.running.URL, s.Close, nil
		},
	}
}
