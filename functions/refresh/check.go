package main

import (
	"context"
	"encoding/json"
	"slices"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Serve returns the function's handler. In addition to its queue's events it accepts one message from the function api,
// which may not call clouds itself: a request to check the clouds.
func Serve(h *lambdahost.Handler, seen []CloudCheck) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		if lambdahost.IsCheck(raw) {
			defer h.Sandbox.Begin(ctx)()
			return Check(ctx, seen)
		}
		var batch awsevents.SQSEvent
		if err := json.Unmarshal(raw, &batch); err != nil {
			return nil, err
		}
		return h.HandleSQS(ctx, batch)
	}
}

// CloudCheck checks one cloud.
type CloudCheck struct {
	Name     string
	Checker  driver.Checker
	Machines func(ctx context.Context, cluster string) ([]cloud.Machine, error)
}

// CloudChecks returns the checks of all clouds of a deployment.
func CloudChecks(s *lambdahost.Sandbox, here *aws.Cloud, others map[string]*remote.Client) []CloudCheck {
	all := []CloudCheck{{aws.Name, &refresh.Checker{
		SDK: s.AWS, Cloud: here, Regions: s.BuyIn(), Deployment: s.Env.Deployment,
	}, here.Machines}}
	for _, name := range s.Env.Clouds {
		if c, ok := others[name]; ok {
			all = append(all, CloudCheck{name, c, c.Machines})
		}
	}
	return all
}

// Check checks all clouds concurrently. An error of one cloud is reported as something missing.
func Check(ctx context.Context, seen []CloudCheck) (apitypes.CloudReports, error) {
	out := make(chan apitypes.CloudReport, len(seen))
	for _, eye := range seen {
		go func() { out <- eye.look(ctx) }()
	}
	all := apitypes.CloudReports{Clouds: []apitypes.CloudReport{}}
	for range seen {
		all.Clouds = append(all.Clouds, <-out)
	}
	slices.SortFunc(
		all.Clouds,
		func(a, b apitypes.CloudReport) int { return order(seen, a.Name) - order(seen, b.Name) },
	)
	return all, ctx.Err()
}

func order(seen []CloudCheck, name string) int {
	return slices.IndexFunc(seen, func(e CloudCheck) bool { return e.Name == name })
}

func (e CloudCheck) look(ctx context.Context) apitypes.CloudReport {
	c := apitypes.CloudReport{Name: e.Name, Missing: []apitypes.CloudLack{}}
	report, err := e.Checker.Check(ctx)
	if err != nil {
		report.Missing = append(report.Missing, driver.Lack{What: err.Error(), Fatal: true})
	}
	c.Identity, c.Account, c.Regions = report.Identity, report.Account, report.Regions
	for _, q := range report.Quotas {
		c.Quotas = append(c.Quotas, apitypes.CloudQuota(q))
	}
	for _, k := range report.Reserved {
		c.Reserved = append(c.Reserved, apitypes.CloudReserved(k))
	}
	fatal := false
	for _, l := range report.Missing {
		fatal = fatal || l.Fatal
		c.Missing = append(c.Missing, apitypes.CloudLack(l))
	}
	if fatal {
		return c
	}
	machines, err := e.Machines(ctx, "")
	if err != nil {
		c.Missing = append(c.Missing, apitypes.CloudLack{What: err.Error()})
	}
	for _, m := range machines {
		if m.State != cloud.Terminated {
			c.Machines++
		}
	}
	return c
}
