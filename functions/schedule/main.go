// Command schedule is the Lambda function that admits ready tasks by queue, quota and budget.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/policy"
)

func main() { lambdahost.Serve(events.FnSchedule, policy.Part) }
