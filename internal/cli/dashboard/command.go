package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/web"
)

// EnvToken is the environment variable that has the server's token, where one is to stay the same.
const EnvToken = "TRADEWIND_DASHBOARD_TOKEN" //nolint:gosec // a name

// Brokers is how the command finds its broker, and what plans jobs where the broker does not.
type Brokers struct {
	Flags func(c *cobra.Command, state *string) // those that say which is meant
	Find  func(ctx context.Context, state string) (b Broker, where string, done func() error, err error)
	// Planner makes plans on a folder of catalogues; see api.Planning. The line says on which clouds, for people.
	Planner func(ctx context.Context, state, catalog string) (api.PlanFunc, api.FrontierFunc, string, error)
}

// Command is dashboard.
func Command(a *command.App, brokers Brokers) *cobra.Command {
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show a broker's jobs in a browser",
		Long: "Listens on a port of this computer, on loopback alone, and prints an address to open in a browser: the\n" +
			"pages that `tradewind up` serves, of the broker that is meant. Requests to a deployment on AWS are signed\n" +
			"with your credentials. Plans of job files that are not submitted are made here, on the catalogue's list\n" +
			"prices, where the broker makes none. The token in the address is good until the command ends, or is that\n" +
			"of $" + EnvToken + ". It goes on until Ctrl-C; jobs go on without it.",
		Example: "  tradewind dashboard --endpoint https://abc123.execute-api.us-east-1.amazonaws.com\n" +
			"  tradewind dashboard --endpoint kubernetes://prod/tradewind --port 8001",
		Args: command.Args(0, 0),
	}
	var state, dir string
	var port int
	brokers.Flags(c, &state)
	command.CatalogFlag(c, &dir)
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
		return errors.Join(serve(ctx, a, b, where, port, token, func() (http.Handler, string, error) {
			plan, frontier, says, err := brokers.Planner(ctx, command.Absolute(state), dir)
			return api.Planning(token, plan, frontier), says, err
		}), done())
	}
	return c
}

// serve listens until ctx ends.
func serve(ctx context.Context, a *command.App, b Broker, where string, port int, token string,
	planning func() (http.Handler, string, error)) error {
	if err := loopback.LetIn(ctx, a, b, where, "/v1/jobs?limit=1", ""); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to end before it began
		}
		return err
	}
	plans, says, err := planning()
	if err != nil {
		return err
	}
	pages, err := web.Handler()
	if err != nil {
		return err
	}
	d := Door{Broker: b, Token: token, Pages: pages, Plans: plans}
	return loopback.Serve(ctx, port, d.Handler(), func(address string) error {
		return a.Printf("dashboard of %s\n  url    http://%s/?token=%s\n  plans  %s\n\nCtrl-C ends it; jobs go on.\n",
			where, address, token, says)
	})
}

var _ Broker = (*client.Client)(nil)
