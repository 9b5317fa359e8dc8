package planner

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// SolvedFleet is a fleet with its model of expected times.
type SolvedFleet struct {
	Model *shared.Model
	Plan  *shared.Plan
}

// Fleets plans the fleets of a job.
func Fleets(ctx context.Context, p *Planner, in planinput.Input) (out []SolvedFleet, err error) {
	b, err := p.prepare(in, nil)
	if err != nil {
		return nil, err
	}
	fl, _ := b.groupFleets()
	if err := fl.solve(ctx, 1, false); err != nil {
		return nil, err
	}
	for _, f := range fl.all {
		out = append(out, SolvedFleet{f.model, f.answer})
	}
	return out, nil
}

// SetEffort makes the searches for fleets shorter.
func SetEffort(p *Planner, effort float64) { p.effort = effort }

// Retimed gives the tasks of a plan the times of another model.
func Retimed(m *shared.Model, p *shared.Plan) *shared.Plan { return retimed(m, p) }

// SetCrowd leaves the machines of fleets at the offers that are best for one.
func SetCrowd(p *Planner, crowd bool) { p.crowd = crowd }
