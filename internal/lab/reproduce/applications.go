package reproduce

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// jobs are the paper's applications as job files.
//
//go:embed applications
var jobs embed.FS

// applications plans the paper's three applications on each cloud alone and on all, for the least cost and for the
// least time.
func applications(ctx context.Context, _ *source) (Item, error) {
	item := Item{
		Title:   "three applications on one cloud and on all",
		Columns: []string{"application", "objective", "clouds", "usd", "hours", "usdToAll", "hoursToAll", "places"},
		Note: "The text of the paper that this page follows ends before its evaluation, so there are no numbers to " +
			"compare with. The plans are the optimizer's, with this program's catalogue (July 2026) and expected " +
			"interruptions; nothing was run. The jobs are in internal/lab/reproduce/applications. `vision` has the " +
			"data, the times and the machines of SkyPilot's public example (chain_app.py, time_estimators.py). " +
			"`genomics` has the paper's 24 spot machines for 8 days. `analytics` has the paper's services, EMR and " +
			"Dataproc, and an assumed size; the catalogue has no such service of Azure. The data of `vision` and " +
			"`analytics` is in S3, in us-east-1, and the other clouds pay for the transfer. `usdToAll` and " +
			"`hoursToAll` are relative to the plan on all clouds with the same objective: if both are 1, all clouds " +
			"give no better plan than this one.",
	}
	p, err := newPlanner("emr", "dataproc")
	if err != nil {
		return item, err
	}
	for _, name := range []string{"vision", "genomics", "analytics"} {
		text, err := jobs.ReadFile("applications/" + name + ".yaml")
		if err != nil {
			return item, err
		}
		for _, objective := range []dag.Objective{dag.MinimizeCost, dag.MinimizeMakespan} {
			rows, err := onClouds(ctx, p, text, objective)
			if err != nil {
				return item, fmt.Errorf("%s: %w", name, err)
			}
			for _, row := range rows {
				row["application"], row["objective"] = name, string(objective)
				item.Rows = append(item.Rows, row)
			}
		}
	}
	return item, nil
}

// onClouds plans a job on all clouds, then on each alone.
func onClouds(ctx context.Context, p *planner.Planner, job []byte, objective dag.Objective) (rows []Row, err error) {
	var all *record.Plan
	for _, clouds := range [][]string{nil, {"aws"}, {"azure"}, {"gcp"}} {
		spec, err := native.Parse("job.yaml", job)
		if err != nil {
			return nil, err
		}
		spec.Objective, spec.Regions = objective, clouds
		plan, err := p.Plan(ctx, planinput.Input{Spec: spec, Now: beginning()})
		if err != nil {
			return nil, err
		}
		if all == nil {
			all, clouds = plan, []string{"all"}
		}
		row := Row{"clouds": clouds[0], "places": "no plan"}
		if plan.Status != record.PlanInfeasible {
			row["usd"], row["hours"], row["places"] = plan.USD, plan.Hours, places(plan)
			row["usdToAll"], row["hoursToAll"] = plan.USD/all.USD, plan.Hours/all.Hours
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// places lists the distinct machines of a plan, and the region of each.
func places(plan *record.Plan) string {
	var out []string
	for i := range plan.Offers {
		o := &plan.Offers[i].Offer
		name := o.InstanceType
		if o.Accelerator != "" && !strings.EqualFold(o.Accelerator, name) {
			name += fmt.Sprintf(" (%s:%g)", o.Accelerator, o.AccelCount)
		}
		if o.Service != "" {
			name = o.Service + " " + name
		}
		out = append(out, fmt.Sprintf("%s in %s:%s", name, o.Cloud, o.Region))
	}
	return strings.Join(out, ", ")
}
