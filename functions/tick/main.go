// Command tick is the Lambda function that takes in spot prices and asks for better plans.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
)

func main() { lambdahost.ServeDoor(events.FnTick, clouds.Prices) }
