package cli

import (
	"context"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// kubernetesScheme starts the endpoint of a deployment in a cluster: kubernetes://CONTEXT/NAMESPACE.
const kubernetesScheme = "kubernetes://"

// inCluster connects to the broker in a cluster through a local port that is forwarded to its pod while the command
// runs.
func (a *app) inCluster(ctx context.Context, raw string, given bool) (*conn, error) {
	at, err := readCluster(raw)
	if err != nil {
		return nil, err
	}
	broker, err := a.clouds.Forward(ctx, at, a.Lookup(client.EnvToken))
	if err != nil {
		return nil, err
	}
	s := &conn{running: host.Running{URL: broker.URL, TimeScale: 1}, state: raw, remote: true}
	if given {
		s.hint = " --endpoint " + raw
	}
	s.Client = client.New(broker.URL, broker.Token)
	return s, nil
}

// readCluster parses kubernetes://CONTEXT/NAMESPACE. Context names may contain slashes, namespaces cannot.
func readCluster(raw string) (clouds.ClusterEndpoint, error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(raw, kubernetesScheme), "/")
	i := strings.LastIndexByte(rest, '/')
	if i < 0 || rest[i+1:] == "" || strings.ContainsAny(rest[i+1:], "?#:@") {
		return clouds.ClusterEndpoint{}, command.BadInput(
			"use kubernetes://my-context/tradewind, or kubernetes:///tradewind for the current context",
			"%q has no namespace",
			raw,
		)
	}
	return clouds.ClusterEndpoint{Raw: raw, Context: rest[:i], Namespace: rest[i+1:]}, nil
}
