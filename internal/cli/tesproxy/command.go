package tesproxy

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
)

// EnvToken is the environment variable that has the proxy's token, where one is to stay the same.
const EnvToken = "TRADEWIND_TES_TOKEN" //nolint:gosec // a name

// Brokers is how the command finds its broker.
type Brokers struct {
	Flags func(c *cobra.Command, state *string) // those that say which is meant
	Find  func(ctx context.Context, state string) (b loopback.Asked, where string, done func() error, err error)
}

// Command is tes.
func Command(a *command.App, brokers Brokers) *cobra.Command {
	c := &cobra.Command{
		Use:   "tes",
		Short: "Let workflow engines on this computer use a broker by GA4GH TES",
		Long: "Listens on a port of this computer, on loopback alone, and passes on what clients of GA4GH TES ask\n" +
			"there: Snakemake, Nextflow, cwl-tes, py-tes. Requests to a deployment on AWS are signed with your\n" +
			"credentials, which those clients cannot do. It prints the URL and the token that they need; the token is good until\n" +
			"the command ends, or is that of $" + EnvToken + ". It goes on until Ctrl-C.",
		Example: "  tradewind tes --endpoint https://abc123.execute-api.us-east-1.amazonaws.com\n" +
			"  tradewind tes --port 8000",
		Args: command.Args(0, 0),
	}
	var state string
	var port int
	brokers.Flags(c, &state)
	loopback.PortFlag(c, &port)
	c.RunE = func(c *cobra.Command, _ []string) error {
		token, err := loopback.Check(a, EnvToken, port)
		if err != nil {
			return err
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		b, where, done, err := brokers.Find(ctx, state)
		if err != nil {
			return err
		}
		return errors.Join(serve(ctx, a, b, where, port, token), done())
	}
	return c
}

// serve listens until ctx ends.
func serve(ctx context.Context, a *command.App, b loopback.Asked, where string, port int, token string) error {
	if err := loopback.LetIn(ctx, a, b, where, api.TESPath+"/service-info",
		"an older broker has no TES: `tradewind upgrade`"); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to end before it began
		}
		return err
	}
	return loopback.Serve(ctx, port, Handler(b, token), func(address string) error {
		url := "http://" + address + "/ga4gh/tes"
		return a.Printf("TES of %s\n  url    %s\n  token  %s\n\nSnakemake:  export SNAKEMAKE_TES_TOKEN=%[3]s\n"+
			"            snakemake --executor tes --tes-url %[2]s ...\n"+
			"Nextflow:   tes { endpoint = '%[2]s'; oauthToken = '%[3]s' }\n"+
			"cwl-tes:    cwl-tes --tes %[4]s ...\n"+
			"py-tes:     tes.HTTPClient(%[2]q, token=%[3]q)\n\nCtrl-C ends it.\n", where, url, token,
			"http://tes:"+token+"@"+strings.TrimPrefix(url, "http://"))
	})
}
