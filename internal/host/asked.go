package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Limits for the computation of a frontier while a user waits: the total time, and the search steps for one point.
const (
	frontierWithin = 10 * time.Second
	pointWork      = 100_000_000
)

// frontier computes the trade-off between a job's cost and its deadline, with the current blocks and prices.
func (h *Host) frontier(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error) {
	in, err := h.broker.Users.DryInput(ctx, spec)
	if err != nil {
		return apitypes.FrontierView{}, err
	}
	return Frontier(ctx, h.planner, in, points)
}

// offers lists the machines that fit a task, without those that are blocked now.
func (h *Host) offers(ctx context.Context, spec *dag.Job, task int) ([]apitypes.FittingOffer, error) {
	in, err := h.broker.Users.DryInput(ctx, spec)
	if err != nil {
		return nil, err
	}
	return h.planner.Offers(in, task)
}

// Frontier computes the frontier of a job, with at most the given number of points, in the API's types.
func Frontier(ctx context.Context, p *planner.Planner, in planinput.Input, points int) (apitypes.FrontierView, error) {
	front, err := p.Frontier(ctx, in, optimizer.FrontierOptions{
		TimeLimit: frontierWithin, MaxPoints: points, PointWork: pointWork,
	})
	if errors.Is(err, planner.ErrInfeasible) {
		return apitypes.FrontierView{Complete: true}, nil // the plan's message has the reason
	}
	if errors.Is(err, optimizer.ErrUndecided) {
		return apitypes.FrontierView{}, nil
	}
	if err != nil {
		return apitypes.FrontierView{}, err
	}
	return ViewFront(front), nil
}

// ViewFront converts a frontier to the API's types.
func ViewFront(front *optimizer.Front) apitypes.FrontierView {
	v := apitypes.FrontierView{Complete: front.Complete, Millis: front.Millis}
	for _, g := range front.Unexplored {
		v.Unexplored = append(v.Unexplored, apitypes.Gap(g))
	}
	for i := range front.Points {
		p := &front.Points[i]
		point := apitypes.FrontierPoint{Hours: p.Hours, USD: p.USD, BoundUSD: p.Bound}
		for task, offer := range p.Choice {
			if strings.HasPrefix(task, "input:") {
				continue // the place of an input file
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

// askWithin is the maximum time of the check of a cloud.
const askWithin = 30 * time.Second

// checkClouds checks all clouds on which the broker buys, concurrently. It also reports which clouds are simulated
// here.
func (h *Host) checkClouds(ctx context.Context) (apitypes.CloudReports, error) {
	names := slices.Sorted(maps.Keys(h.clouds))
	out := make([]apitypes.CloudReport, len(names))
	done := make(chan struct{}, len(names))
	for i, name := range names {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			out[i] = checkCloud(ctx, name, h.clouds[name], h.bought.checkers[name])
			done <- struct{}{}
		}()
	}
	for range names {
		<-done
	}
	return apitypes.CloudReports{Clouds: out}, ctx.Err()
}

// checkCloud checks one cloud. A cloud without a checker is a simulated one. An error is reported as a missing
// resource.
func checkCloud(ctx context.Context, name string, c cloud.Cloud, checker driver.Checker) apitypes.CloudReport {
	r := apitypes.CloudReport{Name: name, Missing: []apitypes.CloudLack{}, Played: checker == nil}
	lacks := func(err error, fatal bool) {
		r.Missing = append(r.Missing, apitypes.CloudLack{What: err.Error(), Fatal: fatal})
	}
	if checker != nil {
		report, err := checker.Check(ctx)
		if err != nil {
			lacks(err, true)
			return r
		}
		r.Identity, r.Account, r.Regions = report.Identity, report.Account, report.Regions
		for _, q := range report.Quotas {
			r.Quotas = append(r.Quotas, apitypes.CloudQuota(q))
		}
		for _, l := range report.Missing {
			r.Missing = append(r.Missing, apitypes.CloudLack(l))
		}
	}
	machines, err := c.Machines(ctx, "")
	if err != nil {
		lacks(err, false)
	}
	for _, m := range machines {
		if m.State != cloud.Terminated {
			r.Machines++
		}
	}
	return r
}
