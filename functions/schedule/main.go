// Command schedule is the Lambda function that admits ready tasks by queue, quota and budget.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

func main() { lambdahost.Start(events.FnSchedule, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	ports := s.Ports()
	ports.Moves, ports.Policy = moves, lambdahost.FollowPolicy(s)
	return s.Serve(ports)
}
