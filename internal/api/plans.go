package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func (a *API) planRoute() {
	userRoute(a, huma.Operation{
		OperationID: "plan", Method: http.MethodPost, Path: "/v1/plans", Tags: []string{"jobs"},
		Summary: "Plan a job file without running it", RequestBody: fileRequest(),
		Description: "Plans with the current prices and blocks, and stores nothing. " +
			"If there is no plan, the status is still 200: `status` is `infeasible` and `message` says why.",
	}, a.plan)
}

func (a *API) learnedRoute() {
	userRoute(a, huma.Operation{
		OperationID: "learned", Method: http.MethodGet, Path: "/v1/learned", Tags: []string{"jobs"},
		Summary: "Return the run times of tasks that earlier jobs of a name showed",
		Description: "By task and machine: the number of runs, and the mean and the variance of the natural " +
			"logarithms of their hours. # stands for numbers in the names of tasks.",
	}, a.learned)
}

type learnedInput struct {
	Job string `query:"job" required:"true" minLength:"1" maxLength:"1024" doc:"Name of the jobs"`
}

func (a *API) learned(ctx context.Context, in *learnedInput) (*body[apitypes.History], error) {
	h, err := a.cfg.Broker.JobViews.Learned(ctx, in.Job)
	return &body[apitypes.History]{Body: h}, err
}

type planInput struct {
	fileBody
	Limits
	Name string `query:"name" maxLength:"1024" doc:"Name of the file, as for submit"`
}

// Limits are query parameters that override the file.
type Limits struct {
	Objective string  `query:"objective" enum:"cost,makespan" doc:"What to minimise; overrides the file"`
	Deadline  string  `query:"deadline" doc:"Time in which to finish, such as 6h or 90m; overrides the file"`
	Budget    float64 `query:"budget" minimum:"0" maximum:"1000000000" doc:"Maximum cost in USD; overrides the file"`
}

func (a *API) plan(ctx context.Context, in *planInput) (*body[apitypes.PlanView], error) {
	if a.cfg.Plan == nil {
		return nil, problem(http.StatusNotImplemented, "this broker plans only submitted jobs")
	}
	spec, _, done, err := a.readFile(ctx, in.Name, &in.fileBody, &in.Limits)
	if err != nil {
		return nil, err
	}
	defer done()
	plan, err := a.cfg.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	v := ViewPlan(spec, plan)
	v.Simulated = a.cfg.Simulated
	return &body[apitypes.PlanView]{Body: v}, nil
}

// override replaces values of the file with those of the query.
func (in *Limits) override(spec *dag.Job) error {
	if in.Objective != "" {
		spec.Objective, spec.Weights = dag.Objective(in.Objective), nil
	}
	if in.Budget > 0 {
		spec.Budget = dag.USD(in.Budget)
	}
	if in.Deadline == "" {
		return nil
	}
	d, err := time.ParseDuration(in.Deadline)
	if err != nil || d <= 0 || d > dag.MaxDuration {
		p := problem(http.StatusUnprocessableEntity, fmt.Sprintf("the deadline %q is not a duration such as 6h or 90m",
			in.Deadline))
		p.Errors = []apitypes.ErrorDetail{{Location: "query.deadline", Message: "not a duration", Value: in.Deadline}}
		return p
	}
	spec.Deadline = d
	return nil
}

// ViewPlan is a plan of a job as users see it.
func ViewPlan(spec *dag.Job, plan *record.Plan) apitypes.PlanView {
	v := apitypes.PlanView{
		Name:          spec.Name,
		Objective:     string(spec.Objective),
		Status:        plan.Status,
		Message:       plan.Message,
		USD:           plan.USD,
		Hours:         plan.Hours,
		Bound:         plan.Bound,
		OnDemandUSD:   plan.OnDemandUSD,
		Late:          plan.Late,
		DeadlineHours: spec.Deadline.Hours(),
		Millis:        plan.Millis,
		Tasks:         make([]apitypes.PlanTask, len(spec.Tasks)),
		Warnings:      spec.Warnings,
		Notes:         plan.Notes,
	}
	g := spec.Graph()
	for i := range spec.Tasks {
		t := apitypes.PlanTask{Name: spec.Tasks[i].Name, Nodes: spec.Tasks[i].Nodes}
		if s := spec.Tasks[i].Service; s != nil {
			t.Service = s.Of
		}
		for _, p := range g.Parents(i) {
			t.After = append(t.After, int(p))
		}
		if c := plan.Of(i); c != nil {
			t.Offer, t.USDPerHour, t.Nodes = c.ID, c.Offer.USDPerHour, record.NodesOn(&spec.Tasks[i], c)
			t.USD, t.Hours, t.Runners = plan.TaskUSD[i], plan.TaskHours[i], plan.Runners[i]
			f := history.FigureOf(&spec.Tasks[i], c.Offer)
			t.Time, t.Estimator = &f, f.From
		}
		v.Tasks[i] = t
	}
	return v
}
