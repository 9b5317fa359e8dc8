// Command hook is the Lambda function that tells people how jobs ended.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/hooks"
)

func main() { lambdahost.Serve(events.FnHook, hooks.Part) }
