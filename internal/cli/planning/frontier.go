package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// frontierSVG is the output form of plan --frontier that is a picture.
const frontierSVG = "svg"

// FrontierResult is what `plan --frontier -o json` prints.
type FrontierResult struct {
	Name string `json:"name"`
	// Points are from the fastest and dearest plan to the slowest and cheapest.
	Points []FrontierPoint `json:"points"`
	// Complete says that there are no others, proven.
	Complete bool `json:"complete"`
	// Unexplored are the parts between points where there may be others.
	Unexplored []optimizer.Gap `json:"unexplored,omitempty"`
	Millis     float64         `json:"millis"`
	Warnings   []string        `json:"warnings,omitempty"`
}

// FrontierPoint is a plan that no other beats in both time and money.
type FrontierPoint struct {
	Hours    float64 `json:"hours"` // with a deadline of so much the job costs
	USD      float64 `json:"usd"`
	BoundUSD float64 `json:"boundUSD"` // no plan as fast costs less
	// Choice names the offer of every task and the place of every input.
	Choice map[string]string `json:"choice"`
}

// frontier prints what a job costs by when it is to be done.
func (a app) frontier(ctx context.Context, p *planner.Planner, c *catalog.Catalog, in record.PlanInput,
	o *planOptions) error {
	front, err := p.Frontier(ctx, in, optimizer.FrontierOptions{
		TimeLimit: cmp.Or(o.timeLimit.Value, 10*time.Second), MaxPoints: o.points, PointWork: 100_000_000,
	})
	if errors.Is(err, planner.ErrInfeasible) {
		return cmp.Or(NoOffer(c, in.Spec, o.clouds), infeasible(err))
	}
	if errors.Is(err, optimizer.ErrUndecided) {
		return command.Because(err, command.ExitFailed, "give it more time with --time-limit",
			"the time was up before the first plan was found")
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
	case "json":
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

// frontierTable shows a front to a person: each point is a deadline to choose.
func (a app) frontierTable(r *FrontierResult) error {
	t := text.Table{Columns: []text.Column{
		{Name: "DEADLINE", Right: true}, {Name: "HOURS", Right: true, Optional: 2}, {Name: "USD", Right: true},
		{Name: "SLOWER", Right: true, Optional: 3}, {Name: "CHEAPER", Right: true},
		{Name: "SPOT", Right: true, Optional: 1}, {Name: "", Flexible: true},
	}}
	knee := r.knee()
	for i := range r.Points {
		p := &r.Points[i]
		row := []text.Cell{
			{Text: text.Span(ceilSpan(p.Hours))}, {Text: fmt.Sprintf("%.3f", p.Hours)}, {Text: text.USD(p.USD)},
			{}, {}, {Text: p.spot()}, {},
		}
		if i > 0 && r.Points[0].Hours > 0 && r.Points[0].USD > 0 {
			row[3].Text = fmt.Sprintf("%.0f%%", 100*(p.Hours/r.Points[0].Hours-1))
			row[4].Text = fmt.Sprintf("%.0f%%", 100*(1-p.USD/r.Points[0].USD))
		}
		switch {
		case len(r.Points) == 1:
			row[6] = text.Cell{Text: "fastest and cheapest", Tone: text.Good}
		case i == 0:
			row[6] = text.Cell{Text: "fastest", Tone: text.Strong}
		case i == len(r.Points)-1:
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
	proof := "all there are, proven"
	if !r.Complete {
		proof = fmt.Sprintf("there may be others between them: --points and --time-limit find more; %s",
			text.Count(len(r.Unexplored), "gap"))
	}
	return a.Printf("\n%s: %s (%s, in %s)\n", a.Style(a.Out).Paint(text.Strong, "frontier"),
		text.Count(len(r.Points), "plan"), proof, text.Span(text.Hours(r.Millis/3.6e6)))
}

// ceilSpan is a deadline that the hours keep: to the next second.
func ceilSpan(hours float64) time.Duration {
	return time.Duration(math.Ceil(hours*3600-1e-6)) * time.Second
}

// spot is how many of the tasks run on spot machines.
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

// knee is the point furthest below the line from the fastest to the cheapest: where more time begins to save little, -1
// where there is none between them.
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
