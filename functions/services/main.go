// Command services is the Lambda function that watches the attempts on managed services: it submits their applications
// and reports their ends. A schedule invokes it each minute while work is open.
package main

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/servicehost"
)

func main() {
	lambdahost.Start(servicehost.Name, func(s *lambdahost.Sandbox) (any, error) {
		others := far.New(s)
		w, err := servicehost.New(s, servicehost.Adapters{
			Services: others.Services(), Data: data.New(s, others), Packs: objects.NewDepot(s).Store,
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return w.Watch(ctx) }, nil
	})
}
