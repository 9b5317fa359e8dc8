package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// row is one model with the results of all solvers.
type row struct {
	part, name    string
	form          form
	tasks, places int
	candidates    int
	ours          answer
	theirs        []answer // in the order of the report's peers
}

// bench solves models with ours and with the peers, whose processes stay running.
type bench struct {
	o     *options
	r     *report
	peers []*peer
	dir   string
	n     int
}

// newBench starts the selected peers. end stops them.
func newBench(ctx context.Context, o *options, r *report) (b *bench, end func() error, err error) {
	b = &bench{o: o, r: r}
	if b.dir, err = os.MkdirTemp("", "tradewind-bench-*"); err != nil {
		return nil, nil, err
	}
	end = func() error {
		errs := []error{os.RemoveAll(b.dir)}
		for _, p := range b.peers {
			errs = append(errs, p.stop())
		}
		return errors.Join(errs...)
	}
	for _, p := range allPeers() {
		if !strings.Contains(strings.ToLower(p.name), strings.ToLower(o.peers)) {
			continue
		}
		if err := p.start(ctx, o.python, o.scripts); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		b.peers = append(b.peers, p)
	}
	return b, end, nil
}

// row measures one model and returns our solution.
func (b *bench) row(ctx context.Context, part, name string, f form, m *optimizer.Model) (*optimizer.Solution, error) {
	ours, sol, err := solve(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", name, f, err)
	}
	w := row{part: part, name: name, form: f, tasks: len(m.Tasks), places: len(m.Places), ours: ours,
		theirs: make([]answer, len(peerNames()))}
	for t := range m.Tasks {
		w.candidates += len(m.Tasks[t].Candidates)
	}
	for i := range w.theirs {
		w.theirs[i].why = "-"
	}
	path, err := save(b.dir, b.n, m)
	if err != nil {
		return nil, err
	}
	b.n++
	for _, p := range b.peers {
		a, err := p.solve(m, f, path, b.o.limit)
		if err != nil {
			return nil, err
		}
		w.theirs[peerIndex(p.name)] = a
	}
	b.r.rows = append(b.r.rows, w)
	fmt.Fprintln(os.Stderr, w.line())
	return sol, os.Remove(path)
}

// grid is the generated models: shapes, sizes and seeds.
func grid(ctx context.Context, o *options, r *report) (err error) {
	b, end, err := newBench(ctx, o, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	sizes := [][2]int{{5, 20}, {5, 100}, {10, 50}, {10, 100}, {20, 20}, {20, 60}, {30, 20}, {30, 60}, {30, 100}}
	if o.quick {
		sizes = [][2]int{{5, 20}, {10, 50}, {30, 60}}
	}
	for _, s := range []shape{chain, forkJoin, random} {
		for k, size := range sizes {
			m := generate(uint64(k), s, size[0], size[1]) //nolint:gosec // few
			if err := b.forms(ctx, "grid", fmt.Sprintf("%s %d × %d", s, size[0], size[1]), m); err != nil {
				return err
			}
		}
	}
	return nil
}

// forms solves the four problems on one model.
func (b *bench) forms(ctx context.Context, part, name string, m *optimizer.Model) error {
	cheap, err := b.row(ctx, part, name, cost, withLimit(m, cost, nil, nil))
	if err != nil {
		return err
	}
	fast, err := b.row(ctx, part, name, makespan, withLimit(m, makespan, nil, nil))
	if err != nil {
		return err
	}
	if !(fast.Hours < cheap.Hours*(1-1e-9) && cheap.USD < fast.USD*(1-1e-9)) {
		return nil // one plan is best for both objectives, so a limit has no effect
	}
	for _, f := range []form{deadline, budget} {
		if _, err := b.row(ctx, part, name, f, withLimit(m, f, cheap, fast)); err != nil {
			return err
		}
	}
	return nil
}
