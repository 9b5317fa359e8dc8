// Command execute is the Lambda function that hands work to the agents of clusters that are up.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() {
	lambdahost.Start(events.FnExecute, func(s *lambdahost.Sandbox) (any, error) { return s.Serve(s.Ports()) })
}
