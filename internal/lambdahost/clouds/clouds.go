// Package clouds gives functions that buy, release or watch machines the EC2
// driver, and the other clouds through their own functions.
package clouds

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	cloudaws "github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// All returns the clouds on which the deployment buys. Their launches and refusals are counted.
func All(s *lambdahost.Sandbox, others far.Functions) (map[string]cloud.Cloud, error) {
	here, err := Open(s)
	if err != nil {
		return nil, err
	}
	all := map[string]cloud.Cloud{here.Name(): s.Counted(here)}
	for name, c := range others.Clouds() {
		all[name] = s.Counted(c)
	}
	return all, nil
}

// Open makes the EC2 driver of a deployment. The table remembers terminated clusters for as long as events are kept.
func Open(s *lambdahost.Sandbox) (*cloudaws.Cloud, error) {
	agents, err := driver.ParseAgents(s.Env.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvAgentKey, err)
	}
	cfg := cloudaws.Config{
		Deployment: s.Env.Deployment, Regions: s.BuyIn(), Agents: agents,
		Graves: driver.StoreGraves(cloudaws.Name, s.Store, s.Config.SeenFor, s.Now), Log: s.Log,
	}
	return cloudaws.New(s.AWS, cfg), nil
}

// Notices finds the clusters of the machines about which EC2 warns.
func Notices(s *lambdahost.Sandbox) (lambdahost.Notices, error) {
	c, err := Open(s)
	return notices{c}, err
}

// notices looks up machines.
type notices struct{ cloud *cloudaws.Cloud }

// Notice implements lambdahost.Notices.
func (n notices) Notice(ctx context.Context, raw []byte) (events.SpotInterrupted, bool, error) {
	notice, relevant, err := cloudaws.DecodeNotice(raw)
	if err != nil {
		return events.SpotInterrupted{}, false, fmt.Errorf("%w: %w", lambdahost.ErrEnvelope, err)
	}
	if !relevant {
		return events.SpotInterrupted{}, false, nil
	}
	return n.cloud.Whose(ctx, notice)
}

// Prices reads the prices of running spot machines, and of those for which tasks wait.
func Prices(s *lambdahost.Sandbox, waitedFor func(context.Context) ([]string, error)) (broker.Prices, error) {
	c, err := Open(s)
	if err != nil {
		return nil, err
	}
	return cloudaws.NewSpotPrices(c, c.Watching(waitedFor), s.Now), nil
}
