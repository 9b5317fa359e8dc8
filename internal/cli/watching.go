package cli

import (
	"context"
)

// watchingBrokers returns how the markets and usage commands find their broker.
func (a *app) watchingBrokers() WatchBrokers {
	return WatchBrokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (WatchBroker, func() error, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
	}
}
