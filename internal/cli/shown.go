package cli

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
)

// dashboardBrokers returns how the dashboard command finds its broker and makes plans.
func (a *app) dashboardBrokers(enabled clouds.EnabledFunc) loopback.DashboardBrokers {
	return loopback.DashboardBrokers{
		Flags: a.brokerFlags,
		Find: func(ctx context.Context, state string) (loopback.DashboardBroker, string, func() error, error) {
			s, err := a.running(ctx, state, "run")
			if err != nil {
				return nil, "", nil, err
			}
			return s, s.running.URL, s.Close, nil
		},
		Planner: func(ctx context.Context, state, catalog string) (api.PlanFunc, api.FrontierFunc, string, error) {
			on, err := enabled(ctx, state, nil)
			if err != nil {
				return nil, nil, "", err
			}
			return planning.PlanFuncs(on, catalog, a.Now)
		},
	}
}
