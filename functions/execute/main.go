// Command execute is the Lambda function that gives work to the agents of running clusters.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() {
	lambdahost.Start(events.FnExecute, func(s *lambdahost.Sandbox) (any, error) { return s.Serve(s.Ports()) })
}
