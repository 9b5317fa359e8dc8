// Command refresh is the Lambda function that renews the catalogue.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/refreshing"
)

func main() { lambdahost.Serve(events.FnRefresh, refreshing.Part, objects.Packs) }
