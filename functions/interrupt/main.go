// Command interrupt is the Lambda function that moves work off machines that will be taken.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
)

func main() { lambdahost.Serve(events.FnInterrupt, clouds.Notices) }
