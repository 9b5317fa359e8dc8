// Package cloudhost serves the driver of a cloud as a Lambda function of its own, which the functions that buy and free
// machines call: it alone links the cloud's SDK, and its role alone is trusted there.
package cloudhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/remote"
)

// Opening is what a driver is opened with.
type Opening struct {
	*lambdahost.Host
	// Settings are the cloud's, by their names: project, subscription.
	Settings map[string]string
	Agents   driver.Agents
	Graves   driver.Graves // in the deployment's table
}

// Serve runs the function of a cloud. It does not return.
func Serve(name string, open func(Opening) (cloud.Cloud, error)) {
	lambdahost.Run(lambdahost.CloudFunction(name), func(h *lambdahost.Host) (any, error) { return New(h, name, open) })
}

// New makes the function's handler.
func New(h *lambdahost.Host, name string, open func(Opening) (cloud.Cloud, error)) (
	func(context.Context, json.RawMessage) (json.RawMessage, error), error) {
	settings, err := driver.ParseSettings(os.Getenv(lambdahost.EnvCloud))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvCloud, err)
	}
	agents, err := driver.ParseAgents(h.Env.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvAgentKey, err)
	}
	c, err := open(Opening{
		Host: h, Settings: settings, Agents: agents,
		Graves: driver.StoreGraves(name, h.Ports.Store, h.Config.SeenFor, h.Ports.Now),
	})
	if err != nil {
		return nil, fmt.Errorf("cloud %s: %w", name, err)
	}
	server := remote.Server{Cloud: c}
	return func(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
		defer h.Begin(ctx)()
		return server.Serve(ctx, message)
	}, nil
}
