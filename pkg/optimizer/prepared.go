package optimizer

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Prepared is a checked and prepared model that can be solved several times, also concurrently. The model must not be
// changed meanwhile.
type Prepared struct {
	model *Model
	frame compiled // the data that all methods share, without the options
}

// Prepare checks m and prepares its graph and matrices. It returns a *[ModelError] for a malformed model.
func Prepare(m *Model) (*Prepared, error) {
	f, err := frameFor(m, foldingFor(m))
	if err != nil {
		return nil, err
	}
	return &Prepared{model: m, frame: *f}, nil
}

// Solve is [Solve] for the prepared model.
func (p *Prepared) Solve(ctx context.Context, o Options) (*Solution, error) {
	return p.solveOn(newMeter(ctx, o), o.Hint, search.DefaultThresholds())
}

func (p *Prepared) solveOn(meter *search.Meter, hint []int, th search.Thresholds) (*Solution, error) {
	if p.model.Objective == Weighted {
		return solveWeighted(p.model, hint, th, meter)
	}
	if len(p.model.Spread) > 0 {
		return solveSpread(p.model, hint, th, meter)
	}
	if len(p.model.Together) > 0 {
		return solveTogether(p.model, hint, th, meter)
	}
	if p.model.Objective == Carbon || p.model.CarbonCapKg != nil {
		return solveCarbon(p.model, hint, th, meter)
	}
	return p.solve(meter, hint, th)
}

func (p *Prepared) solve(meter *search.Meter, hint []int, th search.Thresholds) (*Solution, error) {
	inst := p.frame // with its own options; the rest is shared
	inst.setOptions(foldingFor(p.model))
	return (&solver{inst: &inst, meter: meter, thresholds: th}).run(hint)
}
