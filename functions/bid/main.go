// Command bid is the Lambda function that decides what to pay for spot machines.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() {
	lambdahost.Start(events.FnBid, func(s *lambdahost.Sandbox) (any, error) { return s.Serve(s.Ports()) })
}
