// Command reconcile is the Lambda function that finds what was left half done, and lets an idle deployment sleep.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/clouds"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
)

func main() {
	lambdahost.ServeDoor(events.FnReconcile, clouds.Part, activity.Rest, lambdahost.Leftovers, data.Part)
}
