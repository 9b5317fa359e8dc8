package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// FrontierFunc returns up to points Pareto-optimal plans (cost and time) of a job that is not submitted, or none if the
// job is infeasible. The result has the API's own types, so that a host without a solver need not link one.
type FrontierFunc func(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error)

func (a *API) frontierRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "frontier", Method: http.MethodPost, Path: "/v1/frontiers", Tags: []string{"jobs"},
		Summary: "Show how the cost of a job file depends on its deadline", RequestBody: fileRequest(),
		Description: "The plans that are Pareto-optimal in time and cost, from the fastest to the cheapest. Each " +
			"point is a possible deadline. Nothing is stored.",
	}, a.frontier)
}

type frontierInput struct {
	fileBody
	Limits
	Name   string `query:"name" maxLength:"1024" doc:"Name of the file, as for submit"`
	Points int    `query:"points" minimum:"2" maximum:"40" default:"12" doc:"Maximum number of plans"`
}

func (a *API) frontier(ctx context.Context, in *frontierInput) (*body[apitypes.FrontierView], error) {
	if a.cfg.Frontier == nil {
		return nil, problem(http.StatusNotImplemented, "this broker plans only submitted jobs")
	}
	spec, _, done, err := a.readFile(ctx, in.Name, &in.fileBody, &in.Limits)
	if err != nil {
		return nil, err
	}
	defer done()
	front, err := a.cfg.Frontier(ctx, spec, in.Points)
	if err != nil {
		return nil, err
	}
	front.Name, front.Points, front.Unexplored = spec.Name, orEmpty(front.Points), orEmpty(front.Unexplored)
	return &body[apitypes.FrontierView]{Body: front}, nil
}
