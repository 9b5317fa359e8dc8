package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// brokerFlags adds the flags that choose the broker: that of a local state folder, or a remote one.
func (a *app) brokerFlags(c *cobra.Command, state *string) {
	a.StateFlag(c, state)
	c.Flags().StringVar(&a.endpoint, "endpoint", a.Lookup(command.EnvEndpoint),
		"`URL` of a remote broker, as printed by \"tradewind deploy\": https://…, or\nkubernetes://CONTEXT/NAMESPACE")
	c.Flags().Lookup("endpoint").DefValue = "" // do not show the environment's value as the program's default
	a.brokerFlagSets = append(a.brokerFlagSets, c.Flags())
}

// remote returns the connection to the remote broker that flags or environment name, or nil if they name none.
func (a *app) remote(ctx context.Context) (*conn, error) {
	state, endpoint := false, false
	for _, f := range a.brokerFlagSets { // the flag sets of all commands; only one command runs
		state, endpoint = state || f.Changed("state"), endpoint || f.Changed("endpoint")
	}
	switch {
	case state && endpoint:
		return nil, command.BadInput("leave out one of them",
			"--state names a broker on this computer, --endpoint a remote one")
	case a.endpoint == "" || state:
		return nil, nil
	}
	if strings.HasPrefix(a.endpoint, kubernetesScheme) {
		return a.inCluster(ctx, a.endpoint, endpoint)
	}
	base, region, err := readEndpoint(a.endpoint, a.Lookup(client.EnvSign))
	if err != nil {
		return nil, err
	}
	s := &conn{running: host.Running{URL: base, TimeScale: 1}, state: base, remote: true}
	if endpoint {
		s.hint = " --endpoint " + base
	}
	s.Client, err = client.Open(ctx, base, region, a.Lookup(client.EnvToken))
	switch {
	case errors.Is(err, client.ErrNoCredentials):
		return nil, command.Because(err, command.ExitFailed,
			"`aws configure`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, provide credentials", "%v", err)
	case err != nil:
		return nil, command.Because(err, command.ExitBadInput, "AWS_PROFILE picks another profile", "%v", err)
	}
	return s, nil
}

// brokerHint returns the flag that a suggested command needs to find the same broker.
func (a *app) brokerHint(s *conn) string {
	if s.remote {
		return s.hint
	}
	return a.stateHint(s.state)
}

// readEndpoint calls client.ReadEndpoint and turns its error into a command error.
func readEndpoint(raw, sign string) (base, region string, err error) {
	base, region, err = client.ReadEndpoint(raw, sign)
	var bad *client.EndpointError
	if errors.As(err, &bad) {
		return "", "", command.BadInput(bad.Hint, "%s", bad.Reason)
	}
	return base, region, err
}

// remoteBrokers returns how the cloud commands find a remote broker.
func (a *app) remoteBrokers() clouds.RemoteBrokers {
	return clouds.RemoteBrokers{Flags: a.brokerFlags, Find: func(ctx context.Context) (clouds.Broker, string, error) {
		s, err := a.remote(ctx)
		if err != nil || s == nil {
			return nil, "", err
		}
		return s, s.running.URL, nil
	}, Running: func(ctx context.Context, state string) (clouds.Broker, func() error, error) {
		s, err := a.read(ctx, state)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}}
}
