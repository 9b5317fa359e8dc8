package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Sign in to the dashboard, or replace the broker's token",
		Long: "Programs authenticate with the broker's token, which is in the file `token` of the state folder. A\n" +
			"browser signs in to the dashboard with an address that works once.",
		Example: "  tradewind token sign-in\n  tradewind token rotate",
	}
	command.Group(c)
	c.AddCommand(a.tokenSignInCommand(), a.tokenRotateCommand())
	return c
}

// TokenResult is the JSON output of the commands of token.
type TokenResult struct {
	URL     string    `json:"url,omitempty"`     // that signs in, once
	Expires time.Time `json:"expires,omitzero"`  // the address
	State   string    `json:"state,omitempty"`   // folder whose token was replaced
	Running bool      `json:"running,omitempty"` // a broker uses the new token
}

func (a *app) tokenSignInCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "sign-in", Short: "Print an address that signs one browser in to the dashboard",
		Long: "Prints an address of the dashboard of the broker on this computer. The address signs one browser in,\n" +
			"if it is opened within ten minutes. The browser stays signed in for twelve hours. `tradewind\n" +
			"dashboard` does the same for a remote broker.",
		Example: "  tradewind token sign-in\n  xdg-open \"$(tradewind token sign-in -o json | jq -r .url)\"",
		Args:    command.Args(0, 0),
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		r, found, err := a.brokers.Find(absolute(state))
		if err != nil {
			return err
		}
		if !found {
			return command.Failed("`tradewind up` starts one and prints such an address", "no broker runs for %s",
				absolute(state))
		}
		result := TokenResult{URL: signInURL(r), Expires: a.Now().Add(signin.CodeFor).UTC().Truncate(time.Second)}
		if output.JSON() {
			return a.PrintJSON(result)
		}
		return a.Printf("%s\n", result.URL)
	}
	return c
}

func (a *app) tokenRotateCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "rotate", Short: "Replace the token of the broker on this computer",
		Long: "Replaces the token in the state folder, and does not print the new one. Within seconds a running\n" +
			"broker accepts only the new token, and the sessions of its dashboard end. Running jobs continue,\n" +
			"because agents and machines of pools have their own tokens. The command is not for deployments: on AWS\n" +
			"they have no such token, on Kubernetes it is in a Secret.",
		Example: "  tradewind token rotate\n  TRADEWIND_TOKEN=$(cat ~/.local/state/tradewind/token)",
		Args:    command.Args(0, 0),
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.rotateToken(ctx, absolute(state), output)
	}
	return c
}

func (a *app) rotateToken(ctx context.Context, state string, output *command.Choice) error {
	r, found, err := a.brokers.Find(state)
	if err != nil {
		return err
	}
	token, err := host.RotateToken(state)
	if err != nil {
		return err
	}
	if found {
		if err := untilAccepted(ctx, r.URL, token); err != nil {
			return command.Because(err, command.ExitFailed, "restart the broker: it uses the new token then",
				"the token in %s is replaced, but the running broker does not accept it: %v", state, err)
		}
	}
	if output.JSON() {
		return a.PrintJSON(TokenResult{State: state, Running: found})
	}
	if !found {
		return a.Printf("the token in %s is replaced; no broker runs there\n", state)
	}
	return a.Printf("the broker accepts only the new token now, which is in %s/token; browsers sign in again with "+
		"`tradewind token sign-in`\n", state)
}

// How long and how often untilAccepted tries.
const (
	acceptedWithin = 20 * time.Second
	acceptedEvery  = 200 * time.Millisecond
)

// untilAccepted waits until a broker accepts a token.
func untilAccepted(ctx context.Context, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	for {
		_, err := client.New(url, token).Jobs(ctx, 1)
		if err == nil {
			return nil
		}
		if clock.Pause(ctx, acceptedEvery) != nil {
			return err
		}
	}
}
