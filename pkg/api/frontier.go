package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// FrontierFunc finds up to so many plans of a job that is not submitted that no other beats in both time and money. A
// job for which there is no plan has none. The answer is in the API's own types: a host that does not solve need not
// have the solver.
type FrontierFunc func(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error)

func (a *API) frontierRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "frontier", Method: http.MethodPost, Path: "/v1/frontiers", Tags: []string{"jobs"},
		Summary: "Tell what a job file costs by when it is to be done", RequestBody: fileRequest(),
		Description: "The plans that no other beats in both time and money, from the fastest to the cheapest. Each " +
			"point is a deadline that can be asked for. Nothing is stored.",
	}, a.frontier)
}

type frontierInput struct {
	fileBody
	Limits
	Name   string `query:"name" maxLength:"1024" doc:"Name of the file, as for submit"`
	Points int    `query:"points" minimum:"2" maximum:"40" default:"12" doc:"The most plans to find"`
}

func (a *API) frontier(ctx context.Context, in *frontierInput) (*body[apitypes.FrontierView], error) {
	if a.cfg.Frontier == nil {
		return nil, problem(http.StatusNotImplemented, "this broker plans submitted jobs only")
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
