package loopback

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// EnvTESToken is the environment variable for a fixed token of the proxy.
const EnvTESToken = "TRADEWIND_TES_TOKEN" //nolint:gosec // a name

// TESBrokers finds the command's broker.
type TESBrokers struct {
	Flags func(c *cobra.Command, state *string) // adds the flags that choose the broker
	Find  func(ctx context.Context, state string) (b Broker, where string, done func() error, err error)
}

// TESCommand is the tes command.
func TESCommand(a *command.App, brokers TESBrokers) *cobra.Command {
	c := &cobra.Command{
		Use:   "tes",
		Short: "Let workflow engines on this computer use a broker with GA4GH TES",
		Long: "Listens on a loopback port of this computer and forwards requests of GA4GH TES clients (Snakemake,\n" +
			"Nextflow, cwl-tes, py-tes) to the broker. Requests to a deployment on AWS are signed with your\n" +
			"credentials, which these clients cannot do themselves. Prints the URL and the token for the clients.\n" +
			"The token is the value of $" + EnvTESToken + ", or a new one that is valid until the command ends.\n" +
			"Ctrl-C stops it.",
		Example: "  tradewind tes --endpoint https://abc123.execute-api.us-east-1.amazonaws.com\n" +
			"  tradewind tes --port 8000",
		Args: command.Args(0, 0),
	}
	var state string
	var port int
	brokers.Flags(c, &state)
	PortFlag(c, &port)
	c.RunE = func(c *cobra.Command, _ []string) error {
		token, err := Check(a, EnvTESToken, port)
		if err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		b, where, done, err := brokers.Find(ctx, state)
		if err != nil {
			return err
		}
		return errors.Join(tesServe(ctx, a, b, where, port, token), done())
	}
	return c
}

// serve listens until ctx ends.
func tesServe(ctx context.Context, a *command.App, b Broker, where string, port int, token string) error {
	if err := CheckAccess(ctx, a, b, where, api.TESPath+"/service-info",
		"the broker is too old for TES: `tradewind upgrade` shows the newest version"); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted before it began
		}
		return err
	}
	return Serve(ctx, port, TESHandler(b, token), func(address string) error {
		url := "http://" + address + "/ga4gh/tes"
		return a.Printf("TES of %s\n  url    %s\n  token  %s\n\nSnakemake:  export SNAKEMAKE_TES_TOKEN=%[3]s\n"+
			"            snakemake --executor tes --tes-url %[2]s ...\n"+
			"Nextflow:   tes { endpoint = '%[2]s'; oauthToken = '%[3]s' }\n"+
			"cwl-tes:    cwl-tes --tes %[4]s ...\n"+
			"py-tes:     tes.HTTPClient(%[2]q, token=%[3]q)\n\nCtrl-C stops it.\n", where, url, token,
			"http://tes:"+token+"@"+strings.TrimPrefix(url, "http://"))
	})
}
