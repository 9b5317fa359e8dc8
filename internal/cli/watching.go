package cli

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cli/watching"
)

// watchingBrokers returns how the markets and usage commands find their broker.
func (a *app) watchingBrokers() watching.Brokers {
	return watching.Brokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (watching.Broker, func() error, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
	}
}
