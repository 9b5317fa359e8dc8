// Command advance is the Lambda function that finds the tasks that are ready, and the end of jobs.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() { lambdahost.Serve(events.FnAdvance) }
