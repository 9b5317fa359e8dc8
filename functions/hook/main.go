// Command hook is the Lambda function that notifies users when jobs end.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/hooks"
)

func main() {
	lambdahost.Start(events.FnHook, func(s *lambdahost.Sandbox) (any, error) {
		ports := s.Ports()
		clouds := far.New(s)
		ports.Hook = hooks.New(s, clouds.DAGBuckets(), clouds.Announcer(), broker.NewViews(s.Config, ports).JobDetail)
		return s.Serve(ports)
	})
}
