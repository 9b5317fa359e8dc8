// Package clouds brings EC2 into the functions that buy machines, free them or
// listen to what becomes of them, and the other clouds by their own functions.
package clouds

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	cloudaws "github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Part lets the broker buy and free machines.
func Part(h *lambdahost.Host) error {
	c, err := Open(h)
	if err != nil {
		return err
	}
	h.Ports.Clouds = map[string]cloud.Cloud{c.Name(): c}
	addFar(h, h.Ports.Clouds)
	return nil
}

// Open makes the EC2 driver of a deployment. Terminated clusters are remembered in the table, for as long as events
// are.
func Open(h *lambdahost.Host) (*cloudaws.Cloud, error) {
	agents, err := driver.ParseAgents(h.Env.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvAgentKey, err)
	}
	cfg := cloudaws.Config{
		Deployment: h.Env.Deployment, Regions: h.BuyIn(), Agents: agents,
		Graves: driver.StoreGraves(cloudaws.Name, h.Ports.Store, h.Config.SeenFor, h.Ports.Now), Log: h.Log(),
	}
	return cloudaws.New(h.AWS, cfg), nil
}

// Notices finds out whose the machines are that EC2 warns of.
func Notices(h *lambdahost.Host) error {
	c, err := Open(h)
	if err != nil {
		return err
	}
	h.Decoder.Notices = notices{c}
	return nil
}

// notices looks machines up.
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

// Prices reads the prices of the spot machines that run, and of those that tasks wait for.
func Prices(h *lambdahost.Host) error {
	c, err := Open(h)
	if err != nil {
		return err
	}
	h.Ports.Prices = cloudaws.NewSpotPrices(c, c.Watching(func(ctx context.Context) ([]string, error) {
		return h.Broker.Views.WaitedFor(ctx)
	}), h.Ports.Now)
	return nil
}
