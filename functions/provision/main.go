// Command provision is the Lambda function that buys and releases machines.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
)

func main() { lambdahost.Start(events.FnProvision, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	others := far.New(s)
	all, err := clouds.All(s, others)
	if err != nil {
		return nil, err
	}
	ports := s.Ports()
	ports.Clouds, ports.Services = all, others.Services()
	ports.Tokens, ports.Data = keys.Open(s).Mint, data.New(s, others)
	return s.Serve(ports)
}
