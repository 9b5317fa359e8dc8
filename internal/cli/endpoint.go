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

// brokerFlags adds the flags that say which broker is meant: the one of a state folder here, or one elsewhere.
func (a *app) brokerFlags(c *cobra.Command, state *string) {
	a.StateFlag(c, state)
	c.Flags().StringVar(&a.endpoint, "endpoint", a.Lookup(command.EnvEndpoint),
		"`URL` of a broker elsewhere, as \"tradewind deploy\" prints it: https://…, or\nkubernetes://CONTEXT/NAMESPACE")
	c.Flags().Lookup("endpoint").DefValue = "" // what the environment says is no default of the program
	a.chosen = append(a.chosen, c.Flags())
}

// remote returns the session with the broker elsewhere that flags or environment name, nil when they name none.
func (a *app) remote(ctx context.Context) (*conn, error) {
	state, endpoint := false, false
	for _, f := range a.chosen { // of the one command that runs
		state, endpoint = state || f.Changed("state"), endpoint || f.Changed("endpoint")
	}
	switch {
	case state && endpoint:
		return nil, command.BadInput("leave out one of them",
			"--state is of a broker on this computer, --endpoint of one elsewhere")
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
	s := &conn{running: host.Running{URL: base, TimeScale: 1}, state: base, elsewhere: true}
	if endpoint {
		s.hint = " --endpoint " + base
	}
	s.Client, err = client.Open(ctx, base, region, a.Lookup(client.EnvToken))
	switch {
	case errors.Is(err, client.ErrNoCredentials):
		return nil, command.Because(err, command.ExitFailed,
			"`aws configure` or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give some", "%v", err)
	case err != nil:
		return nil, command.Because(err, command.ExitBadInput, "AWS_PROFILE picks another profile", "%v", err)
	}
	return s, nil
}

// brokerHint is the flag that a suggested command needs to find the same broker.
func (a *app) brokerHint(s *conn) string {
	if s.elsewhere {
		return s.hint
	}
	return a.stateHint(s.state)
}

// readEndpoint is client.ReadEndpoint with the command line's kind of error.
func readEndpoint(raw, sign string) (base, region string, err error) {
	base, region, err = client.ReadEndpoint(raw, sign)
	var bad *client.EndpointError
	if errors.As(err, &bad) {
		return "", "", command.BadInput(bad.Hint, "%s", bad.Reason)
	}
	return base, region, err
}

// elsewhere is how the commands of clouds find a broker that is not of a state folder here.
func (a *app) elsewhere() clouds.Elsewhere {
	return clouds.Elsewhere{Flags: a.brokerFlags, Find: func(ctx context.Context) (clouds.Asked, string, error) {
		s, err := a.remote(ctx)
		if err != nil || s == nil {
			return nil, "", err
		}
		return s, s.running.URL, nil
	}}
}
