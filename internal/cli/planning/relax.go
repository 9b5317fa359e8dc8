package planning

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// relaxed describes which bound of an infeasible request to relax, by how much, and the offers that the tasks would
// then use.
func (o *planOptions) relaxed(ctx context.Context, p *planner.Planner, in planinput.Input, r *PlanResult) string {
	m, err := p.Model(in)
	if err != nil {
		return o.relax(r)
	}
	limits := optimizer.Options{WorkLimit: 100_000_000}
	sol, err := optimizer.Solve(ctx, m, limits)
	if err != nil || sol.Reason == nil || !sol.Reason.Exact {
		return o.relax(r)
	}
	var ways []string
	way := func(flag string, relax func(*optimizer.Model)) {
		near := *m
		relax(&near)
		if sol, err := optimizer.Solve(ctx, &near, limits); err == nil && sol.Picks != nil {
			ways = append(ways, fmt.Sprintf("%s would work, with %s", flag, describeOffers(sol)))
		}
	}
	reason := sol.Reason
	if h := reason.LeastHours; h > 0 {
		way("--deadline "+spanArgument(h), func(m *optimizer.Model) { m.DeadlineHours = &h })
	}
	if usd := reason.LeastUSD; usd > 0 {
		way("--budget "+roundedUp(usd), func(m *optimizer.Model) { m.BudgetUSD = &usd })
	}
	if kg := reason.LeastKgCO2; kg > 0 {
		way("--carbon-cap "+roundedUp(kg), func(m *optimizer.Model) { m.CarbonCapKg = &kg })
	}
	if len(ways) == 0 {
		return o.relax(r)
	}
	return strings.Join(ways, "; or ")
}

// describeOffers names the first few offers of a solution.
func describeOffers(sol *optimizer.Solution) string {
	const most = 3
	var tasks []string
	for task := range sol.Choice {
		if !strings.HasPrefix(task, "input:") {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	var on []string
	for _, task := range tasks[:min(most, len(tasks))] {
		on = append(on, text.Clean(task)+" on "+text.Clean(sol.Choice[task]))
	}
	if len(tasks) > most {
		on = append(on, text.Count(len(tasks)-most, "other task"))
	}
	return text.List(on, "and")
}

// spanArgument formats hours as a flag value, rounded up.
func spanArgument(hours float64) string {
	d := ceilSpan(hours)
	if d >= 10*time.Minute {
		d = (d + time.Minute - 1).Truncate(time.Minute)
	}
	return strings.TrimSuffix(d.String(), "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(d.String(), "m0s")]
}

// roundedUp formats an amount with four significant digits, rounded up.
func roundedUp(v float64) string {
	digits := 3 - int(math.Floor(math.Log10(v)))
	scale := math.Pow(10, float64(max(0, digits)))
	return text.Number(math.Ceil(v*scale*(1-1e-12)) / scale)
}
