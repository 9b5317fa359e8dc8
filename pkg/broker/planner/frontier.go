package planner

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Frontier finds the Pareto front of a job's plans: what it costs to be done by when. Times are those that a deadline
// counts with, a spot run's guaranteed ones, so that a deadline at a point gives a plan at that point's cost. It fails
// with ErrInfeasible when a task has no candidate.
func (p *Planner) Frontier(ctx context.Context, in record.PlanInput,
	o optimizer.FrontierOptions) (*optimizer.Front, error) {
	given := in.DeadlineHours
	if given == nil {
		distant := float64(optimizer.MaxValue)
		in.DeadlineHours = &distant
	}
	b, err := p.build(in)
	if err != nil {
		return nil, err
	}
	if b.message != "" {
		return nil, fmt.Errorf("%w: %s", ErrInfeasible, b.message)
	}
	b.model.DeadlineHours = given
	o.Now = p.opt.Now
	return optimizer.Frontier(ctx, b.model, o)
}
