package cli

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/client"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// Environment of a broker elsewhere.
const (
	envToken = "TRADEWIND_TOKEN"       // of a broker that is not behind IAM; not the value: gosec
	envSign  = "TRADEWIND_SIGN_REGION" // for an API of AWS behind a name of one's own
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
	base, region, err := readEndpoint(a.endpoint, a.Lookup(envSign))
	if err != nil {
		return nil, err
	}
	s := &conn{running: host.Running{URL: base, TimeScale: 1}, state: base, elsewhere: true}
	if endpoint {
		s.hint = " --endpoint " + base
	}
	if region == "" {
		s.Client = client.New(base, a.Lookup(envToken))
		return s, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput, "AWS_PROFILE picks another profile",
			"the configuration of AWS cannot be read: %v", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, command.Because(err, command.ExitFailed,
			"`aws configure` or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give some",
			"no AWS credentials to sign requests with: %v", err)
	}
	s.Client = client.NewSigned(base, region, cfg.Credentials)
	return s, nil
}

// brokerHint is the flag that a suggested command needs to find the same broker.
func (a *app) brokerHint(s *conn) string {
	if s.elsewhere {
		return s.hint
	}
	return a.stateHint(s.state)
}

// gatewayHost is API Gateway's own name for an API.
var gatewayHost = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// readEndpoint checks a broker's URL, and says for which region of AWS requests to it are signed, "" for none.
func readEndpoint(raw, sign string) (base, region string, err error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", "", command.BadInput("as in https://abc123.execute-api.us-east-1.amazonaws.com",
			"%q is no URL of a broker", raw)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", "", command.BadInput("the URL ends before ? and #, and has no user", "%q is no URL of a broker",
			u.Redacted())
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", "", command.BadInput("https:// keeps what is sent to oneself",
			"%q would send tokens and jobs in the clear", raw)
	}
	if m := gatewayHost.FindStringSubmatch(strings.ToLower(u.Hostname())); m != nil && sign == "" {
		sign = m[1]
	}
	return strings.TrimSuffix(u.String(), "/"), sign, nil
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
