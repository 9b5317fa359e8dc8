package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// newPlanner is the planner of `tradewind plan`, on the whole catalogue.
func newPlanner() (*planner.Planner, error) {
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	return planner.New(c, moves, planner.DefaultOptions()), nil
}

// workflows solves the recorded workflows, Pegasus DAX and WfFormat, on the whole catalogue, with the candidates that
// `tradewind plan` gives the optimizer.
func workflows(ctx context.Context, o *options, r *report) (err error) {
	b, end, err := newBench(ctx, o, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	p, err := newPlanner()
	if err != nil {
		return err
	}
	var files []string
	for _, pattern := range []string{"dax/*.xml.gz", "wfformat/*.json.gz"} {
		found, err := filepath.Glob(filepath.Join(o.data, "workflows", pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return fmt.Errorf("no workflows in %s", o.data)
	}
	defer r.workflowTargets()
	for _, file := range files {
		spec, err := readWorkflow(file)
		if err != nil {
			return err
		}
		if err := b.workflow(ctx, p, spec, title(file)); err != nil {
			return err
		}
	}
	return nil
}

func title(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	if i := strings.LastIndex(name, "__"); i >= 0 {
		name = name[i+2:]
	}
	return name
}

func readWorkflow(file string) (*dag.Job, error) {
	f, err := os.Open(file) //nolint:gosec // found in the folder that the flag names
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return read.Job(strings.TrimSuffix(filepath.Base(file), ".gz"), z)
}

// workflow solves the four problems on one workflow. The planner omits what is irrelevant to a form, so each form has a
// different model.
func (b *bench) workflow(ctx context.Context, p *planner.Planner, spec *dag.Job, name string) error {
	candidates := func(f form, deadlineHours, budgetUSD *float64) (*optimizer.Model, error) {
		job := *spec
		if job.Objective = dag.MinimizeCost; f == makespan || f == budget {
			job.Objective = dag.MinimizeMakespan
		}
		m, err := p.Model(record.PlanInput{Spec: &job, Now: time.Unix(0, 0), DeadlineHours: deadlineHours,
			BudgetUSD: budgetUSD})
		if err == nil && m.Edges == nil {
			m.Edges = []optimizer.Edge{}
		}
		return m, err
	}
	m, err := candidates(cost, nil, nil)
	if err != nil {
		return err
	}
	if _, err = b.row(ctx, "workflows", name, cost, m); err != nil {
		return err
	}
	// The limits are derived from the model of the limited forms: with a deadline, a spot run counts with its
	// guaranteed time.
	loose := 1e9
	if m, err = candidates(deadline, &loose, nil); err != nil {
		return err
	}
	m.DeadlineHours = nil
	return b.forms(ctx, "workflows", name, m)
}

// workflowTargets adds the targets that every single workflow must meet.
func (r *report) workflowTargets() {
	slowest, gap, slowestTime, n := 0.0, 0.0, 0.0, 0
	proven := true
	for k := range r.rows {
		w := &r.rows[k]
		switch {
		case w.part != "workflows":
		case w.form == cost:
			n++
			slowest, proven = max(slowest, w.ours.cpu), proven && w.ours.proven
		case w.form == makespan:
			gap, slowestTime = max(gap, w.ours.gap), max(slowestTime, w.ours.cpu)
		}
	}
	verdict := "all proven"
	if !proven {
		verdict = "not all proven"
	}
	r.extra = append(r.extra,
		measured{"workflows, minimal cost, the slowest", "100 ms, proven",
			fmt.Sprintf("%s, %s, of %d models", millis(slowest), verdict, n)},
		measured{"workflows, makespan: the largest gap, the longest time", "1 %, 1 s",
			fmt.Sprintf("%.2g %%, %s", 100*gap, millis(slowestTime))})
}

// replan takes random DAGs of 30 tasks with 100 candidates, blocks the place of one task of the current plan after
// another, and solves again from that plan, as the broker does.
func replan(ctx context.Context, _ *options, r *report) error {
	total, n, worst := timing{}, 0, 0.0
	for seed := range uint64(8) {
		m := generate(seed, random, 30, 100)
		plan, err := optimizer.Solve(ctx, m, optimizer.Options{})
		if err != nil {
			return err
		}
		for t := range m.Tasks {
			posed, hint := without(m, m.Tasks[t].Candidates[plan.Picks[t]].Place, plan.Picks)
			took, err := measure(20*time.Millisecond, func() error {
				_, err := optimizer.Solve(ctx, posed, optimizer.Options{Hint: hint})
				return err
			})
			if err != nil {
				return err
			}
			total.wall, total.cpu, worst = total.wall+took.wall, total.cpu+took.cpu, max(worst, took.cpu)
			n++
		}
	}
	r.extra = append(r.extra, measured{
		"a blocked region re-planned, random DAGs of 30 tasks × 100 candidates", "1 ms",
		fmt.Sprintf("%s on average, %s at worst, of %d", millis(total.cpu/float64(n)), millis(worst), n),
	})
	return nil
}

// without returns the model without a place's candidates, and the remaining part of a plan as a hint.
func without(m *optimizer.Model, place int, picks []int) (posed *optimizer.Model, hint []int) {
	out := *m
	out.Tasks, hint = make([]optimizer.Task, len(m.Tasks)), make([]int, len(m.Tasks))
	for t := range m.Tasks {
		out.Tasks[t].ID, hint[t] = m.Tasks[t].ID, -1
		for k, c := range m.Tasks[t].Candidates {
			if c.Place == place {
				continue
			}
			if k == picks[t] {
				hint[t] = len(out.Tasks[t].Candidates)
			}
			out.Tasks[t].Candidates = append(out.Tasks[t].Candidates, c)
		}
	}
	return &out, hint
}
