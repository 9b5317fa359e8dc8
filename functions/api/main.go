// Command api is the Lambda function that serves users and agents over HTTP.
package main

import (
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/apihost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

func main() { lambdahost.Start(apihost.Name, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	others, ring, packs := far.New(s), keys.Open(s), objects.NewDepot(s)
	stores := data.New(s, others)
	ports := s.Ports()
	ports.Moves, ports.Policy, ports.Packs, ports.Data = moves, lambdahost.FollowPolicy(s), packs, stores
	ports.Tokens, ports.Secrets = ring.Mint, keys.Secrets(s, ring, others)
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	g, err := apihost.New(s, b, apihost.Adapters{
		Ring: ring, Data: stores, Packs: packs, Others: others, Wake: activity.NewAWS(s).On,
	})
	if err != nil {
		return nil, err
	}
	return apihost.Serve(s, g), nil
}
