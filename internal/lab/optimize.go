package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

func (a app) optimizeCommand() *cobra.Command {
	var limit command.Span
	c := &cobra.Command{
		Use:   "optimize MODEL.json",
		Short: "Solve an optimizer model with a proof of optimality",
		Long: "Reads a model that `tradewind plan --model-out` has written, and prints as JSON the best choice of a\n" +
			"candidate for each task, with a proof. - is standard input. If the model has machines in place of\n" +
			"candidates, tasks can share them, and the result is a plan with a lower bound. Exits with 3 if no\n" +
			"choice keeps the limits of the model.",
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
		return a.optimize(ctx, given[0], limit.Value)
	}
	return c
}

// optimize solves the model in a file, of either form, and prints the answer.
func (a app) optimize(ctx context.Context, path string, limit time.Duration) error {
	in, name, done, err := a.openModel(path)
	if err != nil {
		return err
	}
	defer done()
	shares := shared.IsModel(in)
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return command.Unreadable(path, err)
	}
	if shares {
		return a.optimizeShared(ctx, in, name, limit)
	}
	model, err := optimizer.ReadModel(in)
	if err != nil {
		return badModel(err, name)
	}
	solution, err := optimizer.Solve(ctx, model, optimizer.Options{TimeLimit: limit})
	if err != nil {
		return undecided(err)
	}
	return a.printSolution(solution, solution.Status, solution.Message)
}

// optimizeShared solves a model whose tasks share machines.
func (a app) optimizeShared(ctx context.Context, in io.Reader, name string, limit time.Duration) error {
	model, err := shared.ReadModel(in)
	if err != nil {
		return badModel(err, name)
	}
	solution, err := shared.Solve(ctx, model, shared.Options{TimeLimit: limit})
	if err != nil {
		return undecided(err)
	}
	return a.printSolution(solution, solution.Status, solution.Message)
}

func (a app) printSolution(solution any, status optimizer.Status, message string) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(solution); err != nil {
		return err
	}
	if status == optimizer.Infeasible {
		return &command.Failure{Code: command.ExitInfeasible, Text: message}
	}
	return nil
}

func undecided(err error) error {
	if errors.Is(err, optimizer.ErrUndecided) {
		return command.Because(err, command.ExitFailed, "allow more time with --time-limit",
			"the search ended before a plan was found or ruled out")
	}
	return err
}

// openModel opens a model that can be read twice. Standard input is read to its end first.
func (a app) openModel(path string) (in io.ReadSeeker, name string, done func(), err error) {
	if path == command.Stdin {
		text, err := io.ReadAll(io.LimitReader(a.In, optimizer.MaxModelBytes+1))
		if err != nil {
			return nil, "", nil, command.Because(err, command.ExitBadInput, "", "stdin: %v", err)
		}
		return bytes.NewReader(text), "stdin", func() {}, nil
	}
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, "", nil, command.Unreadable(path, err)
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() { // a pipe
		defer f.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(io.LimitReader(f, optimizer.MaxModelBytes+1))
		if err != nil {
			return nil, "", nil, command.Unreadable(path, err)
		}
		return bytes.NewReader(text), path, func() {}, nil
	}
	return f, path, func() { _ = f.Close() }, nil // only read
}

func badModel(err error, name string) error {
	var bad *optimizer.ModelError
	if errors.As(err, &bad) {
		return command.Because(err, command.ExitBadInput,
			"docs/lab.md describes the format; `tradewind plan --model-out` writes it", "%s: %v", name, err)
	}
	return command.Because(err, command.ExitBadInput, "", "%s: %v", name, err)
}
