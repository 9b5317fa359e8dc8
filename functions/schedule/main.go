// Command schedule is the Lambda function that admits ready tasks by queue, quota and budget.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() { lambdahost.Serve(events.FnSchedule) }
