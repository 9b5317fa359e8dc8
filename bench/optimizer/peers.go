package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/jsonlines"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// peer is another solver, run as a process that answers each input line with one line.
type peer struct {
	name, module string
	forms        []form
	limit        time.Duration // a shorter time limit than the others', if not zero
	// maximum number of candidate pairs over all edges that it is given; 0 means no limit
	pairs   int
	running *jsonlines.Process // nil before it starts
}

func allPeers() []*peer {
	every := []form{cost, makespan, deadline, budget}
	return []*peer{
		{name: "toulbar2", module: "toulbar2", forms: []form{cost}, pairs: 2_000_000},
		{name: "toulbar2, folded", module: "toulbar2_folded", forms: []form{cost}, pairs: 2_000_000},
		{name: "HiGHS", module: "highs", forms: every, pairs: 600_000},
		{name: "CP-SAT", module: "cpsat", forms: []form{cost, makespan}, pairs: 110_000, limit: 5 * time.Second},
		{name: "CBC", module: "cbc", forms: []form{cost}, pairs: 300_000},
	}
}

func (p *peer) start(ctx context.Context, python, scripts string) (err error) {
	p.running, err = jsonlines.Start(ctx, python, filepath.Join(scripts, "serve.py"), p.module)
	return err
}

func (p *peer) stop() error {
	if p.running == nil {
		return nil
	}
	return p.running.Stop()
}

// solve runs the peer with a time limit and recomputes the cost of its plan.
func (p *peer) solve(m *optimizer.Model, f form, path string, limit time.Duration) (answer, error) {
	switch {
	case !slices.Contains(p.forms, f):
		return answer{why: "-"}, nil
	case p.pairs > 0 && pairs(m) > p.pairs:
		return answer{why: fmt.Sprintf("not attempted: %d pairs", pairs(m))}, nil
	}
	if p.limit > 0 {
		limit = min(limit, p.limit)
	}
	var got struct {
		Status    string
		Picks     []int
		Wall, CPU float64
	}
	ask := map[string]any{"model": path, "limit": limit.Seconds(), "repeat": 5}
	if err := p.running.Ask(ask, &got); err != nil {
		return answer{}, fmt.Errorf("%s: %w", p.name, err)
	}
	a := answer{timing: timing{got.Wall, got.CPU}, proven: got.Status == "optimal"}
	if got.Status == "none" {
		a.why = "no plan in time"
		return a, nil
	}
	keeps := false
	if a.objective, keeps = priced(m, got.Picks); !keeps {
		a.why = "breaks the bound"
	}
	return a, nil
}

// pairs is the number of candidate pairs at the ends of edges: the size of the paper's formulation.
func pairs(m *optimizer.Model) int {
	candidates := make(map[string]int, len(m.Tasks))
	for t := range m.Tasks {
		candidates[m.Tasks[t].ID] = len(m.Tasks[t].Candidates)
	}
	n := 0
	for _, e := range m.Edges {
		n += candidates[e.From] * candidates[e.To]
	}
	return n
}

// save writes a model to a file for the peers.
func save(dir string, k int, m *optimizer.Model) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("%d.json", k))
	body, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, body, 0o600)
}
