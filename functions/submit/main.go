// Command submit is the Lambda function that reads DAG files that appear in the bucket.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
)

func main() {
	lambdahost.ServeDoor(events.FnSubmit, objects.Part, objects.Packs, keys.Secrets, data.Part, activity.Wake)
}
