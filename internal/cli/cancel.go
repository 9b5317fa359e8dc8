package cli

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

func (a *app) cancelCommand() *cobra.Command {
	var state, reason string
	c := &cobra.Command{
		Use:   "cancel JOB...",
		Short: "Cancel jobs and free their machines",
		Long: "Cancels jobs: their running tasks are stopped, no other tasks start, and their machines are released.\n" +
			"JOB is an ID, the beginning of one, or \"last\". If no broker is running, the jobs are cancelled when\n" +
			"the next broker starts.",
		Example: "  tradewind cancel last\n  tradewind cancel train-infer --reason \"wrong data\"",
		Args:    command.Args(1, maxListedJobs), ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	c.Flags().StringVar(&reason, "reason", "", "reason, recorded in the job's history")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		s, err := a.read(ctx, state)
		if err != nil {
			return err
		}
		for _, arg := range given {
			err = errors.Join(err, a.cancel(ctx, s, arg, reason, output))
		}
		return errors.Join(err, s.Close())
	}
	return c
}

func (a *app) cancel(ctx context.Context, s *conn, arg, reason string, output *command.Choice) error {
	id, err := a.job(ctx, s, arg)
	if err != nil {
		return err
	}
	view, err := s.Cancel(ctx, id, reason)
	if client.Status(err) == http.StatusConflict {
		return command.Because(err, command.ExitFailed, "", "%s has already finished", id)
	}
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(view)
	}
	if s.passive {
		return a.Printf("%s will be cancelled when the next broker starts on %s\n", id, s.state)
	}
	return a.Printf("%s is being cancelled\n", id)
}
