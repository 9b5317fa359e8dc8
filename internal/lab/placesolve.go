package lab

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/tianchi"
	"github.com/tradewind-broker/tradewind/internal/placement/baseline"
	"github.com/tradewind-broker/tradewind/pkg/placement"
	"github.com/tradewind-broker/tradewind/pkg/placement/pack"
)

// The solvers.
const (
	solverAuto      = "auto"
	solverPack      = "pack"
	solverFlow      = "flow"
	solverFirstFit  = "ffd"
	solverBestFit   = "bfd"
	solverDot       = "dot"
	solverFirmament = "firmament"
	solverMedea     = "medea"
)

func solvers() []string {
	return []string{solverAuto, solverPack, solverFlow, solverFirstFit, solverBestFit, solverDot, solverFirmament,
		solverMedea}
}

func (a app) solvePlacement(ctx context.Context, p *placement.Problem, o *placeOptions,
	began time.Time) (placement.Assignment, error) {
	switch o.solver.Value {
	case solverFirstFit:
		return baseline.FirstFit(p), nil
	case solverBestFit:
		return baseline.BestFit(p), nil
	case solverDot:
		return baseline.DotProduct(p), nil
	case solverFirmament:
		return baseline.Firmament(p), nil
	case solverMedea:
		return baseline.Medea(p, baseline.MedeaRule, baseline.MedeaMachine), nil
	case solverFlow:
		return flowPlacement(p)
	case solverPack:
		return a.packPlacement(ctx, p, o, began)
	}
	for i := range p.Apps {
		if p.Apps[i].Priority > 0 {
			return flowPlacement(p)
		}
	}
	return a.packPlacement(ctx, p, o, began)
}

// flowPlacement fills the flow network from empty machines, or from the existing placement if this places more
// instances or uses fewer machines.
func flowPlacement(p *placement.Problem) (placement.Assignment, error) {
	deployed := p.Deployed()
	empty := *p
	empty.Instances = slices.Clone(p.Instances)
	for i := range empty.Instances {
		empty.Instances[i].Machine = placement.Unplaced
	}
	best, err := compact(&empty)
	if err != nil || best.Placed == len(p.Instances) && machines(best.Assignment) <= machines(deployed) {
		return best.Assignment, err // instances that run stay where they are, so the other start needs as many machines
	}
	kept, err := compact(p)
	if err != nil {
		return nil, err
	}
	if cmp.Or(cmp.Compare(kept.Placed, best.Placed), cmp.Compare(machines(best.Assignment),
		machines(kept.Assignment))) > 0 {
		best = kept
	}
	return best.Assignment, nil
}

// machines is the number of machines in use.
func machines(at placement.Assignment) int {
	used := map[int32]bool{}
	for _, m := range at {
		if m != placement.Unplaced {
			used[m] = true
		}
	}
	return len(used)
}

func compact(p *placement.Problem) (placement.Result, error) {
	n, err := placement.New(p, placement.Options{Compact: true})
	if err != nil {
		return placement.Result{}, err
	}
	return *n.Solve(), nil
}

// reserve is the part of the time limit for verifying and writing the result.
const reserve = 20

func (a app) packPlacement(ctx context.Context, p *placement.Problem, o *placeOptions,
	began time.Time) (placement.Assignment, error) {
	limit := o.limit.Value
	limit -= min(limit/reserve, 500*time.Millisecond)
	var told time.Time
	r, err := pack.Pack(p, pack.Options{
		Seed: o.seed, Steps: o.steps,
		Stop: func() bool { return ctx.Err() != nil || limit > 0 && a.Now().Sub(began) >= limit },
		Found: func(placed, machines int) {
			if now := a.Now(); !o.output.JSON() && now.Sub(told) >= time.Second {
				a.Tell("%s: %s of %s on %s", text.Span(now.Sub(began)), text.Thousands(placed),
					text.Count(len(p.Instances), "instance"), text.Count(machines, "machine"))
				told = now
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return r.Assignment, nil
}

// generatePlacement writes a data set with the parameters of the flags.
func (a app) generatePlacement(o *placeOptions) error {
	o.setting.Seed = o.seed
	p, err := placement.Generate(o.setting)
	if err != nil {
		return command.Because(err, command.ExitBadInput, "", "%v", err)
	}
	if err := os.MkdirAll(o.generate, 0o750); err != nil {
		return command.Unreadable(o.generate, err)
	}
	create := func(name string) (io.WriteCloser, error) {
		return os.Create(filepath.Join(o.generate, name)) //nolint:gosec // writing to the folder that the user names is the purpose
	}
	if err := tianchi.Write(create, p); err != nil {
		return command.Unreadable(o.generate, err)
	}
	if o.output.JSON() {
		return a.PrintJSON(GeneratedResult{
			Dir: o.generate, Instances: len(p.Instances), Machines: len(p.Machines), Apps: len(p.Apps),
			Rules: len(p.Rules), LowerBound: placement.LowerBound(p),
		})
	}
	return a.Printf("%s of %s on %s, %s, in %s\n", text.Count(len(p.Instances), "instance"),
		text.Count(len(p.Apps), "app"),
		text.Count(len(p.Machines), "machine"), text.Count(len(p.Rules), "rule"), o.generate)
}

// GeneratedResult is the output of `place --generate DIR -o json`.
type GeneratedResult struct {
	Dir        string `json:"dir"`
	Instances  int    `json:"instances"`
	Machines   int    `json:"machines"`
	Apps       int    `json:"apps"`
	Rules      int    `json:"rules"`
	LowerBound int    `json:"lowerBound"`
}
