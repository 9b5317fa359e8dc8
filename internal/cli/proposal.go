package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// noBudget is the maximum cost of a job without a budget.
const noBudget = "unlimited, it has no budget (--budget, or budget in the job or the settings, sets one)"

// maxProposed is the maximum number of offers in a proposal, which should fit ten lines.
const maxProposed = 4

// showProposal prints a job's plan to standard error.
func (a *app) showProposal(p *proposal, v *apitypes.PlanView) {
	for _, line := range proposalLines(p, v, a.Style(a.Err)) {
		a.Tell("%s", line)
	}
}

// proposalLines describes in about ten lines the machines, the time and the possible cost of a job.
func proposalLines(p *proposal, v *apitypes.PlanView, style text.Style) []string {
	spec := p.file.Spec
	title := style.Paint(text.Strong, text.Clean(v.Name)) + ": " + text.Count(len(v.Tasks), "task")
	lines := []string{title}
	if v.Simulated {
		lines = append(lines, style.Paint(text.Warn, text.Simulated(1)))
	}
	add := func(name, value string) { lines = append(lines, fmt.Sprintf("  %-10s %s", name, value)) }
	if v.Message != "" {
		add("plan", "none is feasible now: "+text.Clean(v.Message))
	}
	name := "offers"
	for _, o := range offersOf(v) {
		add(name, o)
		name = ""
	}
	if v.Message == "" {
		add("time", timeLine(spec, v))
		cost := expected(v)
		if less := text.Saved(v.USD, v.OnDemandUSD); less != "" && v.USD < v.OnDemandUSD {
			cost += ", " + less + " than on demand"
		}
		add("cost", cost)
	}
	add("maximum", maximum(spec))
	if hourly := servicesUSDPerHour(v); hourly > 0 {
		add("services", text.Amount(hourly, v.Simulated)+" per hour, until the job is cancelled")
	}
	if from := sources(v); from != "" {
		add("times from", from)
	}
	for _, note := range v.Notes[:min(len(v.Notes), maxProposed)] {
		add("note", text.Clean(note))
	}
	return lines
}

// timeLine says how long the job takes. With a deadline, the plan is checked against guaranteed times: with slow boots
// and interruptions.
func timeLine(spec *dag.Job, v *apitypes.PlanView) string {
	line := text.Span(text.Hours(v.Hours)) + " expected"
	switch {
	case spec.Deadline <= 0:
		return line + ", not guaranteed (no deadline)"
	case v.Late:
		return line + "; its deadline of " + text.Span(spec.Deadline) + " cannot be met"
	}
	return line + ", guaranteed within its deadline of " + text.Span(spec.Deadline)
}

// maximum is the maximum cost of a job.
func maximum(spec *dag.Job) string {
	if spec.Budget > 0 {
		return text.USD(float64(spec.Budget)) + " USD (its budget)"
	}
	return noBudget
}

// expected is the expected cost of a plan.
func expected(v *apitypes.PlanView) string {
	if v.Status == record.PlanInfeasible {
		return "unknown, no plan is feasible now"
	}
	return text.Amount(v.USD, v.Simulated) + " expected"
}

// offersOf describes the offers of a plan, the most expensive first, and how many others there are.
func offersOf(v *apitypes.PlanView) []string {
	type group struct {
		offer string
		tasks []string
		usd   float64
	}
	by := map[string]*group{}
	var all []*group
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if t.Offer == "" {
			continue
		}
		g := by[t.Offer]
		if g == nil {
			g = &group{offer: t.Offer}
			by[t.Offer] = g
			all = append(all, g)
		}
		g.tasks = append(g.tasks, text.Clean(t.Name))
		g.usd += t.USD
	}
	slices.SortStableFunc(all, func(a, b *group) int { return cmp.Compare(b.usd, a.usd) })
	var lines []string
	for i, g := range all {
		if i == maxProposed && len(all) > maxProposed+1 {
			rest := 0.0
			for _, g := range all[i:] {
				rest += g.usd
			}
			return append(lines, fmt.Sprintf("%d more offers: %s USD", len(all)-i, text.USD(rest)))
		}
		names := strings.Join(g.tasks, ", ")
		if len(g.tasks) > maxNames {
			names = text.Count(len(g.tasks), "task")
		}
		lines = append(lines, fmt.Sprintf("%s: %s USD for %s", text.Clean(g.offer), text.USD(g.usd), names))
	}
	return lines
}

// maxNames is the maximum number of tasks that are named on one line.
const maxNames = 3

// sources describes where the run times of tasks come from, with their numbers, and the results of earlier runs.
func sources(v *apitypes.PlanView) string {
	counts, runs := map[string]int{}, 0
	for i := range v.Tasks {
		if f := v.Tasks[i].Time; f != nil {
			counts[f.From]++
			runs += f.Runs
		}
	}
	var parts []string
	for _, s := range []struct{ from, text string }{
		{apitypes.FromHistory, "earlier runs"}, {apitypes.FromLike, "earlier runs of similar tasks"},
		{apitypes.FromScaled, "earlier runs on other accelerators"}, {apitypes.FromFile, "the job file"},
		{apitypes.FromFLOPs, "the ratings of accelerators"},
		{apitypes.FromNothing, "nothing, so one hour is assumed"},
	} {
		if n := counts[s.from]; n > 0 {
			parts = append(parts, text.Count(n, "task")+" from "+s.text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	learned := "; the broker has seen no earlier runs"
	if runs > 0 {
		learned = "; the broker has seen " + text.Count(runs, "earlier run")
	}
	return strings.Join(parts, ", ") + learned
}
