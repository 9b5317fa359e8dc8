// Command bid is the Lambda function that decides what to pay for spot machines.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func main() { lambdahost.Serve(events.FnBid) }
