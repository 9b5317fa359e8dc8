package cli

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cli/watching"
)

// watched returns how the markets and usage commands find their broker.
func (a *app) watched() watching.Brokers {
	return watching.Brokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (watching.Asked, func() error, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
	}
}
