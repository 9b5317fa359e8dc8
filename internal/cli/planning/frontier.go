package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// frontierSVG is the output format of plan --frontier that draws a plot.
const frontierSVG = "svg"

// FrontierResult is the output of `plan --frontier -o json`.
type FrontierResult struct {
	Name string `json:"name"`
	// Points are sorted from the fastest and most expensive plan to the slowest and cheapest.
	Points []FrontierPoint `json:"points"`
	// Complete is true if it is proven that there are no other points.
	Complete bool `json:"complete"`
	// Unexplored are the gaps between points where there may be others.
	Unexplored []optimizer.Gap `json:"unexplored,omitempty"`
	Millis     float64         `json:"millis"`
	Warnings   []string        `json:"warnings,omitempty"`
}

// FrontierPoint is a plan that no other plan beats in both time and cost.
type FrontierPoint struct {
	Hours    float64 `json:"hours"` // the deadline for which the job costs USD
	USD      float64 `json:"usd"`
	BoundUSD float64 `json:"boundUSD"` // no plan of this duration costs less
	// Choice names the offer of every task and the place of every input.
	Choice map[string]string `json:"choice"`
}

// frontier prints the cost of a job for each deadline.
func (a app) frontier(ctx context.Context, p *planner.Planner, c *catalog.Catalog, in planinput.Input,
	o *planOptions) error {
	front, err := p.Frontier(ctx, in, optimizer.FrontierOptions{
		TimeLimit: cmp.Or(o.timeLimit.Value, 10*time.Second), MaxPoints: o.points, PointWork: 100_000_000,
	})
	if errors.Is(err, planner.ErrInfeasible) {
		return cmp.Or(CheckOffers(c, in.Spec, o.clouds), infeasible(err))
	}
	if errors.Is(err, optimizer.ErrUndecided) {
		return command.Because(err, command.ExitFailed, "allow more time with --time-limit",
			"time ran out before the first plan was found")
	}
	if err != nil {
		return err
	}
	if len(front.Points) == 0 {
		plan, err := p.Plan(ctx, in)
		if err != nil {
			return err
		}
		return &command.Failure{Code: command.ExitInfeasible, Text: "infeasible: " + plan.Message,
			Hint: o.relaxed(ctx, p, in, &PlanResult{DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD})}
	}
	r := frontierResult(in.Spec, front)
	switch o.output.Value {
	case "json", "yaml":
		return a.PrintJSON(r)
	case frontierSVG:
		a.Warn(r.Warnings)
		_, err := fmt.Fprint(a.Out, frontierPlot(r))
		return err
	}
	a.Warn(r.Warnings)
	return a.frontierTable(r)
}

func frontierResult(spec *dag.Job, front *optimizer.Front) *FrontierResult {
	r := &FrontierResult{
		Name: spec.Name, Points: make([]FrontierPoint, 0, len(front.Points)), Complete: front.Complete,
		Unexplored: front.Unexplored, Millis: front.Millis, Warnings: spec.Warnings,
	}
	for i := range front.Points {
		p := &front.Points[i]
		r.Points = append(r.Points, FrontierPoint{Hours: p.Hours, USD: p.USD, BoundUSD: p.Bound, Choice: p.Choice})
	}
	return r
}

// frontierTable prints a frontier for a person: each point is a deadline to choose.
func (a app) frontierTable(r *FrontierResult) error {
	t := text.Table{Columns: []text.Column{
		{Name: "GUARANTEED IN", Right: true}, {Name: "HOURS", Right: true, Optional: 2}, {Name: "USD", Right: true},
		{Name: "SLOWER", Right: true, Optional: 3}, {Name: "CHEAPER", Right: true},
		{Name: "SPOT", Right: true, Optional: 1}, {Name: "", Flexible: true},
	}}
	told := r.distinct()
	knee := told.knee()
	for i := range told.Points {
		p := &told.Points[i]
		row := []text.Cell{
			{Text: text.Span(ceilSpan(p.Hours))}, {Text: fmt.Sprintf("%.3f", p.Hours)}, {Text: text.USD(p.USD)},
			{}, {}, {Text: p.spot()}, {},
		}
		if first := &told.Points[0]; i > 0 && first.Hours > 0 && first.USD > 0 {
			row[3].Text = fmt.Sprintf("%.0f%%", 100*(p.Hours/first.Hours-1))
			row[4].Text = fmt.Sprintf("%.0f%%", 100*(1-p.USD/first.USD))
		}
		switch {
		case len(told.Points) == 1:
			row[6] = text.Cell{Text: "fastest and cheapest", Tone: text.Good}
		case i == 0:
			row[6] = text.Cell{Text: "fastest", Tone: text.Strong}
		case i == len(told.Points)-1:
			row[6] = text.Cell{Text: "cheapest", Tone: text.Good}
		case i == knee:
			row[6] = text.Cell{Text: "best of both", Tone: text.Strong}
		}
		if p.BoundUSD < p.USD*(1-1e-6) {
			row[6].Text = strings.TrimSpace(fmt.Sprintf("%s (not below %s USD)", row[6].Text, text.USD(p.BoundUSD)))
		}
		t.Rows = append(t.Rows, row)
	}
	if err := a.PrintTable(&t); err != nil {
		return err
	}
	proof := "proven complete"
	if !r.Complete {
		proof = fmt.Sprintf("there may be others between them: --points and --time-limit find more; %s",
			text.Count(len(r.Unexplored), "gap"))
	}
	if like := len(r.Points) - len(told.Points); like > 0 {
		proof += fmt.Sprintf("; `-o json` has %d more that hardly differ", like)
	}
	return a.Printf("\n%s: %s (%s, in %s)\n%s\n", a.Style(a.Out).Paint(text.Strong, "frontier"),
		text.Count(len(r.Points), "plan"), proof, text.Span(text.Hours(r.Millis/3.6e6)), guaranteed)
}

// guaranteed describes the meaning of a frontier's times.
const guaranteed = "guaranteed: with reserves for spot interruptions, as --deadline has; `tradewind plan` shows the " +
	"expected time, which is shorter"

// distinct returns the frontier without points that look the same in the table: among points with the same printed
// deadline it keeps the cheapest, and among points with the same printed price the fastest.
func (r *FrontierResult) distinct() *FrontierResult {
	told := FrontierResult{}
	for _, p := range r.Points {
		if n := len(told.Points); n > 0 {
			last := &told.Points[n-1]
			if text.USD(last.USD) == text.USD(p.USD) {
				continue
			}
			if ceilSpan(last.Hours) == ceilSpan(p.Hours) {
				*last = p
				continue
			}
		}
		told.Points = append(told.Points, p)
	}
	return &told
}

// ceilSpan rounds hours up to a deadline that [text.Span] prints exactly, so that a user who types the printed deadline
// gets the same plan.
func ceilSpan(hours float64) time.Duration {
	unit := time.Second
	switch {
	case hours > 48:
		unit = time.Hour
	case hours > 1:
		unit = time.Minute
	}
	return time.Duration(math.Ceil(hours*float64(time.Hour/unit)-1e-6)) * unit
}

// spot returns how many of the tasks run on spot machines.
func (p *FrontierPoint) spot() string {
	spot, all := 0, 0
	for task, offer := range p.Choice {
		if strings.HasPrefix(task, "input:") {
			continue
		}
		all++
		if strings.HasSuffix(offer, "/"+catalog.Spot.String()) {
			spot++
		}
	}
	return fmt.Sprintf("%d/%d", spot, all)
}

// knee returns the point furthest below the line from the fastest to the cheapest, from which more time saves little.
// It returns -1 if there is none between them.
func (r *FrontierResult) knee() int {
	n := len(r.Points)
	best, most := -1, 0.0
	if n < 3 {
		return best
	}
	first, last := &r.Points[0], &r.Points[n-1]
	for i := 1; i < n-1; i++ {
		p := &r.Points[i]
		line := 1 - (p.Hours-first.Hours)/(last.Hours-first.Hours)
		if below := line - (p.USD-last.USD)/(first.USD-last.USD); below > most {
			best, most = i, below
		}
	}
	return best
}
