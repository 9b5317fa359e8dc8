package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func (a *API) planRoute() {
	userRoute(a, huma.Operation{
		OperationID: "plan", Method: http.MethodPost, Path: "/v1/plans", Tags: []string{"jobs"},
		Summary: "Plan a job file without running it", RequestBody: fileRequest(),
		Description: "Plans with the prices and blocked places of now and stores nothing. " +
			"When there is no plan the answer is still 200: `status` is `infeasible` and `message` says why.",
	}, a.plan)
}

func (a *API) learnedRoute() {
	userRoute(a, huma.Operation{
		OperationID: "learned", Method: http.MethodGet, Path: "/v1/learned", Tags: []string{"jobs"},
		Summary: "Tell what earlier jobs of a name have shown of how long their tasks run",
		Description: "By task and machine: how many runs there were, and the mean and the variance of the natural " +
			"logarithms of their hours. # stands for numbers in tasks' names.",
	}, a.learned)
}

type learnedInput struct {
	Job string `query:"job" required:"true" minLength:"1" maxLength:"1024" doc:"Name of the jobs"`
}

func (a *API) learned(ctx context.Context, in *learnedInput) (*body[record.History], error) {
	h, err := a.cfg.Broker.JobViews.Learned(ctx, in.Job)
	return &body[record.History]{Body: h}, err
}

type planInput struct {
	fileBody
	Limits
	Name string `query:"name" maxLength:"1024" doc:"Name of the file, as for submit"`
}

// Limits are what a query says instead of the file.
type Limits struct {
	Objective string  `query:"objective" enum:"cost,makespan" doc:"What to minimise, instead of what the file says"`
	Deadline  string  `query:"deadline" doc:"Time to finish in, instead of what the file says: 6h, 90m"`
	Budget    float64 `query:"budget" minimum:"0" maximum:"1000000000" doc:"The most it may cost in USD, instead of what the file says"`
}

// PlanView is a plan as users see it.
type PlanView struct {
	Name        string     `json:"name" doc:"Name of the job"`
	Objective   string     `json:"objective" doc:"cost or makespan"`
	Status      string     `json:"status" enum:"optimal,feasible,infeasible" doc:"optimal is proven; feasible says by its bound how far off it can be"`
	Message     string     `json:"message,omitempty" doc:"Why there is no plan"`
	USD         float64    `json:"usd" doc:"Expected cost, USD"`
	Hours       float64    `json:"hours" doc:"Expected time from start to end, hours"`
	Bound       float64    `json:"bound" doc:"No plan is better than this, in the objective's unit"`
	OnDemandUSD float64    `json:"onDemandUSD" doc:"The same work on demand at its cheapest, with the data it moves, USD"`
	Late        bool       `json:"late,omitempty" doc:"The deadline cannot be kept: this is the fastest plan"`
	Millis      float64    `json:"millis" doc:"Time that planning took, milliseconds"`
	Tasks       []PlanTask `json:"tasks" nullable:"false" doc:"The tasks in the order of the file"`
	Warnings    []string   `json:"warnings,omitempty" doc:"What the file asks for that is read but not acted on"`
	Notes       []string   `json:"notes,omitempty" doc:"Rules of placement that do not hold where the plan has its tasks"`
}

// PlanTask is where a plan runs a task.
type PlanTask struct {
	Name       string          `json:"name" doc:"Name of the task"`
	After      []int           `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer      string          `json:"offer,omitempty" doc:"Where it would run"`
	Nodes      int             `json:"nodes" doc:"Number of machines"`
	Service    string          `json:"service,omitempty" doc:"The service that it is a replica of: it has no end, and an hour of it is counted"`
	USDPerHour float64         `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	USD        float64         `json:"usd,omitempty" doc:"Expected cost, USD"`
	Hours      float64         `json:"hours,omitempty" doc:"Expected time, hours"`
	Runners    []record.Runner `json:"runners,omitempty" doc:"The next best places, and what each would add to the plan"`
	Time       *history.Figure `json:"time,omitempty" doc:"How long the task is taken to run there, and where that is from"`
}

func (a *API) plan(ctx context.Context, in *planInput) (*body[PlanView], error) {
	if a.cfg.Plan == nil {
		return nil, problem(http.StatusNotImplemented, "this broker plans submitted jobs only")
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
	return &body[PlanView]{Body: viewPlan(spec, plan)}, nil
}

// override puts what the query says in the place of what the file says.
func (in *Limits) override(spec *dag.Job) error {
	if in.Objective != "" {
		spec.Objective = dag.Objective(in.Objective)
	}
	if in.Budget > 0 {
		spec.Budget = dag.USD(in.Budget)
	}
	if in.Deadline == "" {
		return nil
	}
	d, err := time.ParseDuration(in.Deadline)
	if err != nil || d <= 0 || d > dag.MaxDuration {
		p := problem(http.StatusUnprocessableEntity, fmt.Sprintf("the deadline %q is not a time such as 6h or 90m",
			in.Deadline))
		p.Errors = []*huma.ErrorDetail{{Location: "query.deadline", Message: "not a time", Value: in.Deadline}}
		return p
	}
	spec.Deadline = d
	return nil
}

func viewPlan(spec *dag.Job, plan *record.Plan) PlanView {
	v := PlanView{
		Name: spec.Name, Objective: string(spec.Objective), Status: plan.Status, Message: plan.Message,
		USD: plan.USD, Hours: plan.Hours, Bound: plan.Bound, OnDemandUSD: plan.OnDemandUSD, Late: plan.Late,
		Millis: plan.Millis, Tasks: make([]PlanTask, len(spec.Tasks)), Warnings: spec.Warnings, Notes: plan.Notes,
	}
	g := spec.Graph()
	for i := range spec.Tasks {
		t := PlanTask{Name: spec.Tasks[i].Name, Nodes: spec.Tasks[i].Nodes}
		if s := spec.Tasks[i].Service; s != nil {
			t.Service = s.Of
		}
		for _, p := range g.Parents(i) {
			t.After = append(t.After, int(p))
		}
		if c := plan.Of(i); c != nil {
			t.Offer, t.USDPerHour = c.ID, c.Offer.USDPerHour
			t.USD, t.Hours, t.Runners = plan.TaskUSD[i], plan.TaskHours[i], plan.Runners[i]
			f := history.FigureOf(&spec.Tasks[i], c.Offer)
			t.Time = &f
		}
		v.Tasks[i] = t
	}
	return v
}
