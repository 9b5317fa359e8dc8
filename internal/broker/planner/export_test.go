package planner

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// SolvedFleet is a planned fleet with the model of expected times that it was planned with.
type SolvedFleet struct {
	Model *shared.Model
	Plan  *shared.Plan
}

// Fleets plans the fleets of a job's tasks that share machines.
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

// Retimed returns a plan with the run times of another model.
func Retimed(m *shared.Model, p *shared.Plan) *shared.Plan { return retimed(m, p) }

// SetCrowd keeps all machines of a fleet at the best offer for one machine, instead of spreading them.
func SetCrowd(p *Planner, crowd bool) { p.crowd = crowd }
