// Command interrupt is the Lambda function that moves work off machines that the cloud is about to take.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
)

func main() { lambdahost.Start(events.FnInterrupt, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	notices, err := clouds.Notices(s)
	if err != nil {
		return nil, err
	}
	b, err := s.Broker(s.Ports())
	if err != nil {
		return nil, err
	}
	h := &lambdahost.Handler{Sandbox: s, Functions: b.Functions, Notices: notices}
	return h.HandleSQS, nil
}
