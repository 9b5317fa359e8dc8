package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/placement/baseline"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

const aladdinNote = "The paper's trace of Alibaba is not public. The setting is generated from the paper's " +
	"numbers (sections I and III.A): 100,000 containers of 13,056 apps, 70 % of the apps with anti-affinity, 15 % " +
	"of the containers with priority."

// comparison places the paper's setting with each method.
func comparison(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title: "machines and violated constraints by scheduler, on clusters of 10,000 and of 6,500 machines",
		Columns: []string{"scheduler", "cluster", "placed", "violations", "violationsPercent", "machines",
			"moreMachinesPercent"},
		PaperRows: []Row{
			{"scheduler": "aladdin", "cluster": 10_000, "violations": 0},
			{"scheduler": "others", "cluster": 10_000, "violationsPercent": "up to 20",
				"moreMachinesPercent": "up to 50"},
		},
		Note: aladdinNote + " Medea is its greedy form, with weights for rules and machines; Firmament is min-cost " +
			"flow in rounds. `violationsPercent` is relative to the containers. 6,500 machines cannot hold all: a " +
			"container that waits for one of lower priority is a violation.",
	}
	for _, machines := range []int{10_000, 6_500} {
		setting := placement.PaperSetting()
		setting.Machines = machines
		p, err := placement.Generate(setting)
		if err != nil {
			return item, err
		}
		flow := func(p *placement.Problem) (placement.Assignment, error) {
			n, err := placement.New(p, placement.Options{Compact: true})
			if err != nil {
				return nil, err
			}
			return n.Solve().Assignment, nil
		}
		least := 0
		for _, s := range []struct {
			name  string
			solve method
		}{
			{"aladdin", flow}, {"firmament", infallible(baseline.Firmament)},
			{"first-fit", infallible(baseline.FirstFit)}, {"best-fit", infallible(baseline.BestFit)},
			{"medea", infallible(func(p *placement.Problem) placement.Assignment {
				return baseline.Medea(p, baseline.MedeaRule, baseline.MedeaMachine)
			})},
		} {
			at, err := s.solve(p)
			if err != nil || ctx.Err() != nil {
				return item, cmp.Or(err, ctx.Err())
			}
			report, err := placement.Verify(p, at)
			if err != nil {
				return item, err
			}
			if s.name == "aladdin" {
				least = report.Machines
			}
			item.Rows = append(item.Rows, Row{
				"scheduler": s.name, "cluster": machines, "placed": report.Placed, "violations": len(report.Violations),
				"violationsPercent":   100 * float64(len(report.Violations)) / float64(report.Instances),
				"machines":            report.Machines,
				"moreMachinesPercent": 100 * (float64(report.Machines)/float64(least) - 1),
			})
		}
	}
	return item, nil
}

// ablation measures one Solve with and without isomorphism limiting and depth limiting.
func ablation(ctx context.Context, _ *source) (Item, error) {
	const deep = 12 // migrations in a row: in practice no limit
	item := Item{
		Title:   "latency with and without isomorphism limiting (IL) and depth limiting (DL)",
		Columns: []string{"limits", "cluster", "seconds", "placed"},
		PaperRows: []Row{
			{"limits": "IL and DL", "seconds": "below 1"},
			{"limits": "edges from containers to machines", "seconds": "several"},
		},
		Note: aladdinNote + fmt.Sprintf(" Placing all containers on an empty cluster, by one thread; the seconds "+
			"are of the computer that wrote this page. Without IL each container searches from the first machine "+
			"on. Without DL a container may push up to %d others in a row instead of %d; 6,500 machines cannot "+
			"hold all, so that it tries to.", deep, placement.DefaultDepth),
	}
	for _, machines := range []int{10_000, 6_500} {
		setting := placement.PaperSetting()
		setting.Machines = machines
		p, err := placement.Generate(setting)
		if err != nil {
			return item, err
		}
		for _, limits := range []struct {
			name string
			o    placement.Options
		}{
			{"IL and DL", placement.Options{}},
			{"DL", placement.Options{Forget: true}},
			{"IL", placement.Options{Depth: deep}},
			{"none", placement.Options{Forget: true, Depth: deep}},
		} {
			n, err := placement.New(p, limits.o)
			if err != nil || ctx.Err() != nil {
				return item, cmp.Or(err, ctx.Err())
			}
			began := time.Now()
			at := n.Solve().Assignment
			seconds := time.Since(began).Seconds()
			report, err := placement.Verify(p, at)
			if err != nil {
				return item, err
			}
			item.Rows = append(item.Rows, Row{
				"limits": limits.name, "cluster": machines, "seconds": seconds, "placed": report.Placed,
			})
		}
	}
	return item, nil
}

// method places the instances of a problem.
type method func(*placement.Problem) (placement.Assignment, error)

// infallible makes a method that cannot fail one that returns no error.
func infallible(solve func(*placement.Problem) placement.Assignment) method {
	return func(p *placement.Problem) (placement.Assignment, error) { return solve(p), nil }
}

// networkSize is the number of edges of the flow network, with and without aggregated vertices.
func networkSize(_ context.Context, _ *source) (Item, error) {
	s := placement.PaperSetting()
	p, err := placement.Generate(s)
	if err != nil {
		return Item{}, err
	}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		return Item{}, err
	}
	return Item{
		Title:   "edges of the flow network",
		Columns: []string{"network", "edges"},
		Rows: []Row{
			{"network": "containers × machines", "edges": s.Containers * s.Machines},
			{"network": "with apps and racks", "edges": n.Edges()},
		},
		PaperRows: []Row{
			{"network": "containers × machines", "edges": "1,000,000,000"}, {"network": "with apps and racks",
				"edges": "about 300,000"},
		},
		Note: aladdinNote + fmt.Sprintf(" The edges are |T| + |A||R| + |N|; the %d machines form racks of 512.",
			s.Machines),
	}, nil
}
