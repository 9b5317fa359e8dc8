package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	page "github.com/tradewind-broker/tradewind/internal/benchreport"
)

// report collects rows and summarises them.
type report struct {
	begin time.Time
	quick bool
	limit time.Duration
	rows  []row
	sky   []skyRow
	extra []measured
}

// measured is one line of the summary: the measure, its target and its value.
type measured struct {
	what, target, got string
}

func peerNames() []string {
	var names []string
	for _, p := range allPeers() {
		names = append(names, p.name)
	}
	return names
}

func peerIndex(name string) int {
	for i, n := range peerNames() {
		if n == name {
			return i
		}
	}
	return -1
}

// agrees reports whether two proven objectives are equal to a millionth.
func agrees(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// contradiction returns how a row contradicts ours: the peer proves another optimum, or has a plan that is better than
// our bound allows. It is empty if there is no contradiction.
func (w *row) contradiction(a *answer) string {
	bound := w.ours.objective * (1 - w.ours.gap)
	switch {
	case a.why != "":
		return ""
	case a.objective < bound && !agrees(a.objective, bound):
		return fmt.Sprintf("finds %.9g, below our bound %.9g", a.objective, bound)
	case a.proven && w.ours.proven && !agrees(a.objective, w.ours.objective):
		return fmt.Sprintf("proves %.9g, ours %.9g", a.objective, w.ours.objective)
	case a.proven && w.ours.objective > a.objective && !agrees(a.objective, w.ours.objective):
		return fmt.Sprintf("proves %.9g, ours only finds %.9g", a.objective, w.ours.objective)
	}
	return ""
}

// line describes the row for the progress output.
func (w *row) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %-26s ours %s", w.name, w.form, millis(w.ours.cpu))
	if !w.ours.proven {
		fmt.Fprintf(&b, " (gap %.2g%%)", 100*w.ours.gap)
	}
	for i, a := range w.theirs {
		if a.why == "-" {
			continue
		}
		fmt.Fprintf(&b, "; %s %s", peerNames()[i], w.cell(&a))
	}
	return b.String()
}

// cell is a peer's time and its ratio to ours.
func (w *row) cell(a *answer) string {
	switch wrong := w.contradiction(a); {
	case wrong != "":
		return "**" + wrong + "**"
	case a.why != "" && a.cpu == 0:
		return a.why
	case a.why != "":
		return fmt.Sprintf("%s after %s", a.why, millis(a.cpu))
	case !a.proven:
		return fmt.Sprintf("not proven in %s (> %s×)", millis(a.cpu), ratio(a.cpu/w.ours.cpu))
	}
	return fmt.Sprintf("%s (%s×)", millis(a.cpu), ratio(a.cpu/w.ours.cpu))
}

func millis(seconds float64) string {
	ms := 1e3 * seconds
	switch {
	case ms < 0.1:
		return fmt.Sprintf("%.1f µs", 1e3*ms)
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

func ratio(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// mean is the geometric mean of a peer's time relative to ours, over the selected rows. A peer that ran out of time
// counts with its time limit, which favours it.
type mean struct {
	cpu, wall  float64
	rows, lost int // lost: rows on which the peer was faster
	unfinished int
	least      float64
}

func (r *report) mean(peer string, pick func(*row) bool) mean {
	i := peerIndex(peer)
	m := mean{least: math.Inf(1)}
	for k := range r.rows {
		w := &r.rows[k]
		a := &w.theirs[i]
		if !pick(w) || a.cpu == 0 || a.why == "breaks the bound" {
			continue
		}
		m.rows++
		x := a.cpu / w.ours.cpu
		m.cpu += math.Log(x)
		m.wall += math.Log(a.wall / w.ours.wall)
		m.least = min(m.least, x)
		if x < 1 {
			m.lost++
		}
		if !a.proven {
			m.unfinished++
		}
	}
	m.cpu, m.wall = math.Exp(m.cpu/float64(m.rows)), math.Exp(m.wall/float64(m.rows))
	return m
}

func (m mean) String() string {
	s := fmt.Sprintf("%s× (wall clock %s×) over %d rows, minimum %s×", ratio(m.cpu), ratio(m.wall), m.rows,
		ratio(m.least))
	if m.unfinished > 0 {
		s += fmt.Sprintf("; out of time on %d", m.unfinished)
	}
	if m.lost > 0 {
		s += fmt.Sprintf("; faster than ours on %d", m.lost)
	}
	return s
}

// summary returns the lines of the section.
func (r *report) summary() []measured {
	var lines []measured
	agreed, compared, unproven := 0, 0, 0
	for k := range r.rows {
		w := &r.rows[k]
		if !w.ours.proven {
			unproven++
		}
		for i := range w.theirs {
			if a := &w.theirs[i]; a.why == "" && a.proven {
				compared++
				if w.contradiction(a) == "" {
					agreed++
				}
			}
		}
	}
	lines = append(lines, measured{"proven optima of peers that agree to 1e-6", "all",
		fmt.Sprintf("%d of %d; ours not proven on %d of %d models", agreed, compared, unproven, len(r.rows))})
	targets := map[form]map[string]string{
		cost:     {"toulbar2": "10×", "HiGHS": "300×", "CBC": "1,000×"},
		makespan: {"HiGHS": "100×"}, deadline: {"HiGHS": "100×"}, budget: {"HiGHS": "100×"},
	}
	for _, part := range []string{"grid", "workflows"} {
		for _, f := range []form{cost, makespan, deadline, budget} {
			for _, p := range allPeers() {
				m := r.mean(p.name, func(w *row) bool { return w.part == part && w.form == f })
				if m.rows == 0 {
					continue
				}
				target := ""
				if part == "grid" {
					target = targets[f][p.name]
				}
				lines = append(lines, measured{fmt.Sprintf("%s, %s: geometric mean relative to ours, %s", part, f, p.name), target,
					m.String()})
			}
		}
	}
	return append(lines, r.extra...)
}

// write writes the detailed table and the section of the results.
func (r *report) write(o *options) error {
	text := r.table()
	if o.detail == "" {
		fmt.Print(text)
	} else if err := os.WriteFile(o.detail, []byte(text), 0o600); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	return page.Write(o.results, "Optimizer", r.section(), r.begin)
}

// section is the optimizer's part of bench/RESULTS.md.
func (r *report) section() string {
	command := "make bench-optimizer"
	if r.quick {
		command = "bin/bench/optimizer -quick"
	}
	var rows []page.Row
	for _, l := range r.summary() {
		rows = append(rows, page.Row{Measure: l.what, Target: l.target, Result: l.got, Command: command})
	}
	return fmt.Sprintf(
		"Compared with the peers' solvers, one thread each, processor time of solving; a peer had %v for a model.\n"+
			"All rows are in [bench/optimizer/RESULTS.md](optimizer/RESULTS.md).\n\n", r.limit) + page.Table(rows)
}

// table is all rows.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Optimizer, row by row\n\nWritten by `make bench-optimizer` on %s in %s. Processor time of "+
		"solving on one thread; in brackets the ratio to ours.\n",
		r.begin.UTC().Format("2006-01-02"), time.Since(r.begin).Round(time.Second))
	for _, f := range []form{cost, makespan, deadline, budget} {
		r.formTable(&b, f)
	}
	r.skyTable(&b)
	b.WriteString("\n## Summary\n\n| measure | target | measured |\n| --- | --- | --- |\n")
	for _, l := range r.summary() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", l.what, l.target, l.got)
	}
	return b.String()
}

func (r *report) formTable(b *strings.Builder, f form) {
	asked := make([]bool, len(peerNames()))
	for k := range r.rows {
		for i := range r.rows[k].theirs {
			asked[i] = asked[i] || r.rows[k].form == f && r.rows[k].theirs[i].why != "-"
		}
	}
	fmt.Fprintf(b, "\n## %s\n\n| model | tasks | candidates | objective | ours |",
		strings.ToUpper(string(f[:1]))+string(f[1:]))
	for i, name := range peerNames() {
		if asked[i] {
			fmt.Fprintf(b, " %s |", name)
		}
	}
	b.WriteString("\n| --- | --- | --- | --- | --- |" + strings.Repeat(" --- |", count(asked)) + "\n")
	for k := range r.rows {
		w := &r.rows[k]
		if w.form != f {
			continue
		}
		ours := millis(w.ours.cpu)
		if !w.ours.proven {
			ours += fmt.Sprintf(", gap %.2g%%", 100*w.ours.gap)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %.9g | %s |", w.name, w.tasks, w.candidates, w.ours.objective, ours)
		for i := range w.theirs {
			if asked[i] {
				fmt.Fprintf(b, " %s |", w.cell(&w.theirs[i]))
			}
		}
		b.WriteByte('\n')
	}
}

func count(of []bool) int {
	n := 0
	for _, x := range of {
		if x {
			n++
		}
	}
	return n
}

// verdict returns an error if a peer proves ours wrong.
func (r *report) verdict() error {
	var errs []error
	for k := range r.rows {
		for i := range r.rows[k].theirs {
			if why := r.rows[k].contradiction(&r.rows[k].theirs[i]); why != "" {
				errs = append(errs, fmt.Errorf("%s, %s: %s %s", r.rows[k].name, r.rows[k].form, peerNames()[i], why))
			}
		}
	}
	for i := range r.sky {
		if s := &r.sky[i]; s.theirs > 0 && s.ours > s.theirs*(1+1e-9) {
			errs = append(errs, fmt.Errorf("%s: our plan costs %.9g, SkyPilot's %.9g", s.name, s.ours, s.theirs))
		}
	}
	return errors.Join(errs...)
}
