package planning

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// View plans a job on this computer as `plan` does, for a broker that only plans submitted jobs.
func View(ctx context.Context, on clouds.Enabled, dir string, spec *dag.Job, now func() time.Time) (*apitypes.PlanView,
	error) {
	plan, _, _, err := PlanFuncs(on, dir, now)
	if err != nil {
		return nil, err
	}
	p, err := plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	v := api.ViewPlan(spec, p)
	return &v, nil
}

// PlanFuncs returns functions that make the API's plans the same way as `plan`, from a catalogue folder ("" is the
// built-in one) and the enabled clouds. The string names the clouds, for people.
func PlanFuncs(on clouds.Enabled, dir string, now func() time.Time) (api.PlanFunc, api.FrontierFunc, string, error) {
	p, c, err := newPlannerOn(on, dir, nil)
	if err != nil {
		return nil, nil, "", err
	}
	input := func(ctx context.Context, spec *dag.Job) planinput.Input {
		learned := on.Learned(ctx, spec.Name)
		in := inputOf(history.Fill(spec, learned), now())
		in.Boots = learned.Boots
		return in
	}
	plan := func(ctx context.Context, spec *dag.Job) (*record.Plan, error) { return p.Plan(ctx, input(ctx, spec)) }
	frontier := func(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error) {
		return host.Frontier(ctx, p, input(ctx, spec), points)
	}
	return plan, frontier, on.Describe(c.Clouds()), nil
}
