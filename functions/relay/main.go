// Command relay is the Lambda function that publishes the events in the outbox.
package main

import (
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() {
	lambdahost.Start(lambdahost.Relay, func(s *lambdahost.Sandbox) (any, error) { return s.HandleStream, nil })
}
