// Command execute is the Lambda function that hands work to the agents of clusters that are up.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() { lambdahost.Serve(events.FnExecute) }
