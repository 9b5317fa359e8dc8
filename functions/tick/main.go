// Command tick is the Lambda function that records spot prices and requests better plans.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
)

func main() { lambdahost.Start(events.FnTick, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	ports := s.Ports()
	prices, err := clouds.Prices(s, broker.NewViews(s.Config, ports).WaitedFor)
	if err != nil {
		return nil, err
	}
	ports.Prices = prices
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	h := &lambdahost.Handler{Sandbox: s, Functions: b.Functions}
	return h.HandleDirectOrSQS, nil
}
