package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/placement"
	"github.com/tradewind-broker/tradewind/pkg/placement/pack"
)

//go:embed ilp.py
var ilp string

// The small problems that are solved exactly, and the time limit of pack for each.
const (
	smallProblems = 300
	smallSteps    = 20_000
)

// exactProblem is a problem as ilp.py reads it: amounts in whole units; an instance is the index of its app.
type exactProblem struct {
	Machines  [][]int64  `json:"machines"`
	Apps      []posedApp `json:"apps"`
	Instances []int32    `json:"instances"`
	Rules     [][3]int32 `json:"rules"`
	problem   *placement.Problem
}

type posedApp struct {
	Demand []int64 `json:"demand"`
	Weight int64   `json:"weight"`
}

// answer is the result of the exact solver.
type answer struct {
	Value    int64 `json:"value"`
	Machines *int  `json:"machines"` // nil if not all can be placed
}

// small generates a problem with a few machines of two sizes, two resources, priorities and rules, tight enough that in
// about half of the problems some instances must wait.
func small(seed uint64) exactProblem {
	rng := rand.New(rand.NewPCG(seed, 20)) //nolint:gosec // a draw
	p := &placement.Problem{Resources: []placement.Resource{{Name: "cpu", Points: 1}, {Name: "memory", Points: 1}}}
	q := exactProblem{problem: p, Rules: [][3]int32{}}
	for _, capacity := range [][]int64{{8, 16}, {16, 12}} {
		p.Shapes = append(p.Shapes, placement.Shape{Capacity: units(capacity)})
	}
	for k := range 3 + rng.IntN(3) {
		shape := rng.IntN(2)
		p.Machines = append(p.Machines, placement.Machine{Name: fmt.Sprint("m", k), Shape: shape, Rack: k % 2})
		q.Machines = append(q.Machines, [][]int64{{8, 16}, {16, 12}}[shape])
	}
	for a := range 3 + rng.Int32N(5) {
		demand := []int64{1 + rng.Int64N(6), 1 + rng.Int64N(8)}
		p.Apps = append(p.Apps, placement.App{Name: fmt.Sprint("a", a), Demand: units(demand), Priority: rng.IntN(3)})
		q.Apps = append(q.Apps, posedApp{Demand: demand})
		for i := range 1 + rng.IntN(4) {
			p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", a, "-", i), App: a,
				Machine: placement.Unplaced})
			q.Instances = append(q.Instances, a)
		}
		if rng.IntN(2) == 0 {
			q.rule(a, a, 1+rng.Int32N(2))
		}
		if a > 0 && rng.IntN(2) == 0 {
			q.rule(a, rng.Int32N(a), rng.Int32N(2))
		}
	}
	priorities, weights := placement.Weights(p)
	for a := range p.Apps {
		for rank, priority := range priorities {
			if p.Apps[a].Priority == priority {
				q.Apps[a].Weight = weights[rank].Int64() // small, with this few instances
			}
		}
	}
	return q
}

func (q *exactProblem) rule(a, b, most int32) {
	q.problem.Rules = append(q.problem.Rules, placement.Rule{A: a, B: b, Max: most})
	q.Rules = append(q.Rules, [3]int32{a, b, most})
}

func units(whole []int64) []int64 {
	out := make([]int64, len(whole))
	for i, v := range whole {
		out[i] = v * placement.Unit
	}
	return out
}

// exact compares both solvers with CP-SAT's proven optimum on small problems, and reports how often they reach it.
func exact(ctx context.Context, python string, body *strings.Builder) error {
	if _, err := os.Stat(python); err != nil {
		return fmt.Errorf("%w: `make bench-placement` installs it", err)
	}
	problems := make([]exactProblem, smallProblems)
	for i := range problems {
		problems[i] = small(uint64(i)) //nolint:gosec // not negative
	}
	answers, err := ask(ctx, python, problems)
	if err != nil {
		return err
	}
	flow, proven, fewest, complete := 0, 0, 0, 0
	for i, q := range problems {
		n, err := placement.New(q.problem, placement.Options{})
		if err != nil {
			return err
		}
		r := n.Solve()
		value := placement.Value(q.problem, r.Assignment).Int64()
		switch {
		case value > answers[i].Value || r.Optimal && value < answers[i].Value:
			return fmt.Errorf("problem %d: flow %d, proven %v, of an optimum of %d", i, value, r.Optimal,
				answers[i].Value)
		case value == answers[i].Value:
			flow++
		}
		if r.Optimal {
			proven++
		}
		if answers[i].Machines == nil {
			continue
		}
		complete++
		packed, err := pack.Pack(q.problem, pack.Options{Seed: 1, Steps: smallSteps})
		if err != nil {
			return err
		}
		if packed.Placed == len(q.Instances) && packed.Machines < *answers[i].Machines {
			return fmt.Errorf("problem %d: %d machines, below an optimum of %d", i, packed.Machines,
				*answers[i].Machines)
		}
		if packed.Placed == len(q.Instances) && packed.Machines == *answers[i].Machines {
			fewest++
		}
	}
	fmt.Fprintf(body, "\n%d small problems of 3 to 5 machines against the optimum that OR-Tools' CP-SAT proves:\n\n"+
		"| solver | at the optimum | of |\n| --- | --: | --: |\n"+
		"| **flow network**: maximum weighted flow (%d proven by the solver itself) | %d | %d |\n"+
		"| **pack**: fewest machines, of those where all can be placed | %d | %d |\n",
		len(problems), proven, flow, len(problems), fewest, complete)
	return nil
}

// ask solves the problems with CP-SAT.
func ask(ctx context.Context, python string, problems []exactProblem) ([]answer, error) {
	in, err := json.Marshal(problems)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, "-c", ilp) //nolint:gosec // of our own environment
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	var answers []answer
	if err := json.Unmarshal(out.Bytes(), &answers); err != nil {
		return nil, fmt.Errorf("the answers of the integer program: %w", err)
	}
	if len(answers) != len(problems) {
		return nil, fmt.Errorf("%d answers to %d problems", len(answers), len(problems))
	}
	return answers, nil
}
