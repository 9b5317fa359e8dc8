package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// FrontierFunc finds up to so many plans of a job that is not submitted that no other beats in both time and money. A
// job for which there is no plan has none.
type FrontierFunc func(ctx context.Context, spec *dag.Job, points int) (*optimizer.Front, error)

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

// FrontierView is what a job costs by when it is to be done.
type FrontierView struct {
	Name       string          `json:"name" doc:"Name of the job"`
	Points     []FrontierPoint `json:"points" nullable:"false" doc:"From the fastest and dearest to the slowest and cheapest; none: no plan keeps the limits"`
	Complete   bool            `json:"complete" doc:"There are no others, proven"`
	Unexplored []optimizer.Gap `json:"unexplored" nullable:"false" doc:"Between which points there may be others"`
	Millis     float64         `json:"millis" doc:"Time that it took, milliseconds"`
}

// FrontierPoint is a plan that no other beats in both time and money.
type FrontierPoint struct {
	Hours    float64 `json:"hours" doc:"With a deadline of so many hours it costs this"`
	USD      float64 `json:"usd" doc:"Expected cost, USD"`
	BoundUSD float64 `json:"boundUSD" doc:"No plan as fast costs less, USD"`
	Spot     int     `json:"spot" doc:"How many of its tasks are on spot machines"`
	Tasks    int     `json:"tasks" doc:"How many are placed"`
}

func (a *API) frontier(ctx context.Context, in *frontierInput) (*body[FrontierView], error) {
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
	return &body[FrontierView]{Body: viewFrontier(spec.Name, front)}, nil
}

func viewFrontier(name string, front *optimizer.Front) FrontierView {
	v := FrontierView{Name: name, Points: []FrontierPoint{}, Complete: front.Complete,
		Unexplored: orEmpty(front.Unexplored), Millis: front.Millis}
	for i := range front.Points {
		p := &front.Points[i]
		point := FrontierPoint{Hours: p.Hours, USD: p.USD, BoundUSD: p.Bound}
		for task, offer := range p.Choice {
			if strings.HasPrefix(task, "input:") {
				continue // where a file lies that a task reads
			}
			point.Tasks++
			if strings.HasSuffix(offer, "/"+catalog.Spot.String()) {
				point.Spot++
			}
		}
		v.Points = append(v.Points, point)
	}
	return v
}
