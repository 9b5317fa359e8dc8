// Command reconcile is the Lambda function that repairs incomplete work, and switches an idle deployment off.
package main

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs/logbucket"
)

func main() { lambdahost.Start(events.FnReconcile, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	others := far.New(s)
	all, err := clouds.All(s, others)
	if err != nil {
		return nil, err
	}
	ports := s.Ports()
	ports.Clouds, ports.Services, ports.Data = all, others.Services(), data.New(s, others)
	ports.Logs = logs.Remover{Store: s.Store, Objects: logbucket.Bucket{Client: s.S3(), Name: s.Env.WorkBucket}}
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	switches := activity.NewAWS(s)
	switches.Expires = b.Functions.Expires
	idle := func(ctx context.Context) (bool, error) { return s.Idle(ctx, b.Functions, all, ports.Services) }
	after := func(ctx context.Context) error {
		return errors.Join(s.PublishLeft(ctx), activity.Settle(ctx, switches, idle, s.Log))
	}
	h := &lambdahost.Handler{Sandbox: s, Functions: b.Functions, After: after}
	return h.HandleDirectOrSQS, nil
}
