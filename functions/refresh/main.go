// Command refresh is the Lambda function that updates the catalogue, and checks the deployment's access to its clouds.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
)

func main() { lambdahost.Start(events.FnRefresh, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	here, err := clouds.Open(s)
	if err != nil {
		return nil, err
	}
	others := far.New(s).Clouds()
	ports := s.Ports()
	ports.Refresh, ports.Packs = New(s, here, others), objects.NewDepot(s)
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	h := &lambdahost.Handler{Sandbox: s, Functions: b.Functions}
	return Serve(h, CloudChecks(s, here, others)), nil
}
