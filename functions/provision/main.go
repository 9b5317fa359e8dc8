// Command provision is the Lambda function that buys machines and frees them.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
)

func main() { lambdahost.Serve(events.FnProvision, clouds.Part, keys.Part, data.Part) }
