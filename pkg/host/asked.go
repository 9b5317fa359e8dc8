package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// What a frontier that somebody waits for may take: in all, and in steps of the search for one point.
const (
	frontierWithin = 10 * time.Second
	pointWork      = 100_000_000
)

// frontier finds what a job costs by when it is to be done, with the blocks and prices of now.
func (h *Host) frontier(ctx context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error) {
	in, err := h.broker.Users.DryInput(ctx, spec)
	if err != nil {
		return apitypes.FrontierView{}, err
	}
	return Frontier(ctx, h.planner, in, points)
}

// Frontier is the front of a job as the API tells it, of at most so many points.
func Frontier(ctx context.Context, p *planner.Planner, in record.PlanInput, points int) (apitypes.FrontierView, error) {
	front, err := p.Frontier(ctx, in, optimizer.FrontierOptions{
		TimeLimit: frontierWithin, MaxPoints: points, PointWork: pointWork,
	})
	if errors.Is(err, planner.ErrInfeasible) {
		return apitypes.FrontierView{Complete: true}, nil // the plan says why
	}
	if errors.Is(err, optimizer.ErrUndecided) {
		return apitypes.FrontierView{}, nil
	}
	if err != nil {
		return apitypes.FrontierView{}, err
	}
	return ViewFront(front), nil
}

// ViewFront is a front as the API tells it.
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

// askWithin bounds how long a cloud may take to answer all that it is asked.
const askWithin = 30 * time.Second

// askClouds asks the clouds that are bought on, all at once, and tells which ones this computer plays.
func (h *Host) askClouds(ctx context.Context) (apitypes.CloudReports, error) {
	names := slices.Sorted(maps.Keys(h.clouds))
	out := make([]apitypes.CloudReport, len(names))
	done := make(chan struct{}, len(names))
	for i, name := range names {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			out[i] = askCloud(ctx, name, h.clouds[name], h.bought.checkers[name])
			done <- struct{}{}
		}()
	}
	for range names {
		<-done
	}
	return apitypes.CloudReports{Clouds: out}, ctx.Err()
}

// askCloud asks one cloud; one without a checker is played. What it does not say is missing there, and no failure.
func askCloud(ctx context.Context, name string, c cloud.Cloud, checker driver.Checker) apitypes.CloudReport {
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
