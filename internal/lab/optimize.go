package lab

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

func (a app) optimizeCommand() *cobra.Command {
	var limit command.Span
	c := &cobra.Command{
		Use:   "optimize MODEL.json",
		Short: "Solve an optimizer model with a proof of optimality",
		Long: "Reads a placement model as `tradewind plan --model-out` writes it and prints the best choice with its\n" +
			"proof as JSON. - is standard input. Exits with 3 if no choice meets the model's bounds.",
		Example: "  tradewind-lab optimize model.json\n  tradewind-lab optimize model.json --time-limit 10s | " +
			"jq .choice",
		Args: command.Args(1, 1),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	c.Flags().Var(&limit, "time-limit", "stop after this time with the best plan so far and its bound")
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.optimize(ctx, given[0], optimizer.Options{TimeLimit: limit.Value})
	}
	return c
}

func (a app) optimize(ctx context.Context, path string, o optimizer.Options) error {
	model, err := a.readModel(path)
	if err != nil {
		return err
	}
	solution, err := optimizer.Solve(ctx, model, o)
	if errors.Is(err, optimizer.ErrUndecided) {
		return command.Because(err, command.ExitFailed, "allow more time with --time-limit",
			"time ran out before a plan was found or ruled out")
	}
	if err != nil {
		return err
	}
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(solution); err != nil {
		return err
	}
	if solution.Status == optimizer.Infeasible {
		return &command.Failure{Code: command.ExitInfeasible, Text: solution.Message}
	}
	return nil
}

// readModel reads a model. Its errors contain the name of the file.
func (a app) readModel(path string) (*optimizer.Model, error) {
	in, name := a.In, "stdin"
	if path != command.Stdin {
		f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
		if err != nil {
			return nil, command.Unreadable(path, err)
		}
		defer f.Close() //nolint:errcheck // only read
		in, name = io.Reader(f), path
	}
	model, err := optimizer.ReadModel(in)
	var bad *optimizer.ModelError
	if errors.As(err, &bad) {
		return nil, command.Because(err, command.ExitBadInput,
			"docs/cli.md describes the format; `tradewind plan --model-out` writes it", "%s: %v", name, err)
	}
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput, "", "%s: %v", name, err)
	}
	return model, nil
}
