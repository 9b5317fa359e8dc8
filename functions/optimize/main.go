// Command optimize is the Lambda function that plans jobs and replans their remaining tasks.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/planning"
)

func main() {
	lambdahost.Start(events.FnOptimize, func(s *lambdahost.Sandbox) (any, error) {
		ports := s.Ports()
		ports.Planner = planning.New(s)
		return s.Serve(ports)
	})
}
