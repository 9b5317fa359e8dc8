package loopback

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/web"
)

// EnvDashboardToken is the environment variable for a fixed token of the server.
const EnvDashboardToken = "TRADEWIND_DASHBOARD_TOKEN" //nolint:gosec // a name

// DashboardBrokers finds the command's broker, and makes plans if the broker does not.
type DashboardBrokers struct {
	Flags func(c *cobra.Command, state *string) // adds the flags that choose the broker
	Find  func(ctx context.Context, state string) (b DashboardBroker, where string, done func() error, err error)
	// Planner makes plans on a catalogue folder; see api.Planning. The line names the clouds for people.
	Planner func(ctx context.Context, state, catalog string) (api.PlanFunc, api.FrontierFunc, string, error)
}

// DashboardCommand is the dashboard command.
func DashboardCommand(a *command.App, brokers DashboardBrokers) *cobra.Command {
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show a broker's jobs in a browser",
		Long: "Serves the dashboard of a broker, which may be remote, on a loopback port of this computer, and prints\n" +
			"an address to open in a browser. The address signs in one browser, within ten minutes. Requests to a\n" +
			"deployment on AWS are signed with your credentials. If the broker cannot plan a job file before it is\n" +
			"submitted, this command plans it with list prices. $" + EnvDashboardToken + "\n" +
			"sets a token for programs; otherwise a new one is valid until the command ends. Ctrl-C stops it; jobs\n" +
			"continue.",
		Example: "  tradewind dashboard --endpoint https://abc123.execute-api.us-east-1.amazonaws.com\n" +
			"  tradewind dashboard --endpoint kubernetes://prod/tradewind --port 8001",
		Args: command.Args(0, 0),
	}
	var state, dir string
	var port int
	brokers.Flags(c, &state)
	command.CatalogFlag(c, &dir)
	PortFlag(c, &port)
	c.RunE = func(c *cobra.Command, _ []string) error {
		token, err := Check(a, EnvDashboardToken, port)
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
func serve(ctx context.Context, a *command.App, b DashboardBroker, where string, port int, token string,
	planning func() (http.Handler, string, error)) error {
	if err := CheckAccess(ctx, a, b, where, "/v1/jobs?limit=1", ""); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted before it began
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
	d := DashboardProxy{Broker: b, User: signin.New(token), Pages: pages, Plans: plans}
	return Serve(ctx, port, d.Handler(), func(address string) error {
		return a.Printf(
			"dashboard of %s\n  url    %s\n  plans  %s\n\nThe address signs in one browser, within ten minutes. "+
				"Ctrl-C stops the dashboard; jobs continue.\n",
			where, d.User.SignIn("http://"+address), says)
	})
}

var _ DashboardBroker = (*client.Client)(nil)
