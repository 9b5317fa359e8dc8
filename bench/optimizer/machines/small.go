package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tradewind-broker/tradewind/bench/internal/jsonlines"
	"github.com/tradewind-broker/tradewind/internal/optimizer/judge"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// smallUnit is the unit of all times of the small models, in hours, so that CP-SAT's whole numbers are exact.
const smallUnit = 1.0 / 8

// smallModel draws a model of some tasks and three machines in two places.
func smallModel(seed uint64, tasks int) *shared.Model {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
	times := func(least, most int) float64 { return float64(least+r.IntN(most-least+1)) * smallUnit }
	m := &shared.Model{
		Objective: optimizer.Cost, Places: []string{"a", "b"},
		USDPerGiB:   [][]float64{{0, 0.125}, {0.25, 0}},
		HoursPerGiB: [][]float64{{smallUnit, 2 * smallUnit}, {smallUnit, 0}},
	}
	for i := range 3 {
		size := float64(int(1) << i)
		speed := float64(1 + r.IntN(2))
		m.Machines = append(m.Machines, shared.Machine{
			ID: fmt.Sprint("m", i), Place: r.IntN(2), USDPerHour: float64(1+r.IntN(8)) * size * speed / 8, CPUs: size,
			MemoryGiB: 4 * size, Speed: speed, BootHours: times(0, 2), MinimumHours: times(0, 8),
			IncrementHours: times(0, 4), Most: 1 + r.IntN(tasks),
		})
	}
	for i := range tasks {
		m.Tasks = append(m.Tasks, shared.Task{
			ID: fmt.Sprint("t", i), CPUs: float64(r.IntN(3)) / 2, MemoryGiB: float64(1 + r.IntN(3)),
			Hours: 2 * times(1, 8),
		})
		for j := range i {
			if r.IntN(3) == 0 {
				m.Edges = append(m.Edges, optimizer.Edge{
					From: fmt.Sprint("t", j), To: fmt.Sprint("t", i), GiB: float64(r.IntN(3)),
				})
			}
		}
	}
	if m.Edges == nil {
		m.Edges = []optimizer.Edge{}
	}
	if seed%2 == 1 {
		deadline := times(16, 40)
		m.DeadlineHours = &deadline
	}
	if seed%5 == 4 {
		m.Objective = optimizer.Makespan
	}
	return m
}

// cpsat is CP-SAT in a process.
type cpsat struct{ *jsonlines.Process }

func startCPSAT(ctx context.Context, o *Options) (cpsat, error) {
	limit := strconv.FormatFloat(o.Limit.Seconds(), 'g', -1, 64)
	p, err := jsonlines.Start(ctx, o.Python, filepath.Join(o.Scripts, "cpsat_shared.py"), limit)
	return cpsat{p}, err
}

type cpsatAnswer struct {
	Status           string
	Objective, Bound float64
}

func (c cpsat) solve(file string) (a cpsatAnswer, err error) {
	err = c.Ask(map[string]any{"model": file, "unit": smallUnit}, &a)
	return a, err
}

// compareSmall solves small models with ours and with CP-SAT, and fails if one contradicts the other.
func compareSmall(ctx context.Context, o *Options) (err error) {
	fmt.Fprint(o.Out, "\n## Small models\n\n")
	if _, err := os.Stat(o.Python); err != nil {
		fmt.Fprintf(o.Out, "Left out: CP-SAT is not installed (`make bench-optimizer` installs it).\n")
		return nil
	}
	c, err := startCPSAT(ctx, o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tradewind-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(), os.RemoveAll(dir)) }()
	fmt.Fprint(o.Out, "| tasks | models | CP-SAT proves | of these ours is as good | mean excess | highest | ours better than "+
		"CP-SAT's best |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, tasks := range []int{3, 4, 5, 6, 8, 10} {
		if err := c.row(ctx, o, filepath.Join(dir, "model.json"), tasks); err != nil {
			return err
		}
	}
	return nil
}

const smallModels = 20

func (c cpsat) row(ctx context.Context, o *Options, file string, tasks int) error {
	proven, equal, better, sum, highest := 0, 0, 0, 0.0, 0.0
	for seed := range uint64(smallModels) {
		m := smallModel(seed, tasks)
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		theirs, err := c.solve(file)
		if err != nil {
			return err
		}
		ours, err := objective(ctx, m, theirs)
		if err != nil {
			return fmt.Errorf("%d tasks, seed %d: %w", tasks, seed, err)
		}
		if theirs.Status == "feasible" && ours < theirs.Objective*(1-1e-6) {
			better++
		}
		if theirs.Status != "optimal" {
			continue
		}
		proven++
		excess := ours/theirs.Objective - 1
		if excess < -1e-5 {
			return fmt.Errorf("%d tasks, seed %d: CP-SAT proves %v, ours has %v", tasks, seed, theirs.Objective, ours)
		}
		if excess < 1e-5 {
			equal++
		}
		sum, highest = sum+max(excess, 0), max(highest, excess)
	}
	fmt.Fprintf(o.Out, "| %d | %d | %d | %d | %.2f %% | %.2f %% | %d |\n", tasks, smallModels, proven, equal,
		100*sum/float64(max(proven, 1)), 100*highest, better)
	return nil
}

// objective is ours, +Inf if there is no plan. It is an error if our answer contradicts CP-SAT's.
func objective(ctx context.Context, m *shared.Model, theirs cpsatAnswer) (float64, error) {
	s, err := shared.Solve(ctx, m, shared.Options{})
	if errors.Is(err, optimizer.ErrUndecided) {
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	has := theirs.Status == "optimal" || theirs.Status == "feasible"
	if s.Plan == nil {
		if has {
			return 0, fmt.Errorf("CP-SAT has a plan, ours says %s", s.Message)
		}
		return math.Inf(1), nil
	}
	usd, hours, err := judge.Check(m, s.Plan, 0)
	if err != nil {
		return 0, err
	}
	ours := usd
	if m.Objective == optimizer.Makespan {
		ours = hours
	}
	switch {
	case theirs.Status == "infeasible":
		return 0, errors.New("CP-SAT proves that there is no plan, ours has one")
	case has && s.Bound > theirs.Objective*(1+1e-5):
		return 0, fmt.Errorf("the bound %v is above CP-SAT's plan, %v", s.Bound, theirs.Objective)
	}
	return ours, nil
}
