// Command advance is the Lambda function that finds the tasks that are ready, and the end of jobs.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() {
	lambdahost.Start(events.FnAdvance, func(s *lambdahost.Sandbox) (any, error) { return s.Serve(s.Ports()) })
}
