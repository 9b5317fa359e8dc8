package cli

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/cli/tesproxy"
)

// spoken returns how the tes command finds its broker.
func (a *app) spoken() tesproxy.Brokers {
	return tesproxy.Brokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (loopback.Asked, string, func() error, error) {
			s, err := a.running(ctx, state, "run")
			if err != nil {
				return nil, "", nil, err
			}
			return s, s.running.URL, s.Close, nil
		},
	}
}
