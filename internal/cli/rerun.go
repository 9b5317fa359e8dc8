package cli

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

func (a *app) rerunCommand() *cobra.Command {
	var state, key string
	var failed, yes bool
	c := &cobra.Command{
		Use:   "rerun JOB...",
		Short: "Submit jobs again, as new ones",
		Long: "Submits jobs again, each as a new job, and prints the new IDs. With --failed, the new job runs only\n" +
			"the tasks that failed or never ran in the finished job, and reads the outputs of the other tasks. A\n" +
			"job whose secrets were submitted as values cannot be rerun, because the values are not kept: use\n" +
			"`tradewind submit`. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind rerun last\n  tradewind rerun --failed last\n" +
			"  tradewind status -w $(tradewind rerun train-infer)",
		Args: command.Args(1, maxListedJobs), ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	c.Flags().StringVar(&key, "key", "",
		"idempotency key: calls with the same key create only one new job (default: a new key)")
	c.Flags().BoolVar(&failed, "failed", false, "run only the tasks that failed or never ran")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "start the job again without a question, whatever it costs")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		if key != "" && len(given) > 1 {
			return command.BadInput("name one job, or leave out --key", "--key works with one job only")
		}
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		s, err := a.running(ctx, state, "run the job")
		if err != nil {
			return err
		}
		for _, arg := range given {
			err = errors.Join(err, a.rerun(ctx, s, arg, key, rerunning{failed: failed, yes: yes}, output))
		}
		return errors.Join(err, s.Close())
	}
	return c
}

// rerunning is how a job is run again: only its tasks that failed, and without a question.
type rerunning struct{ failed, yes bool }

func (a *app) rerun(ctx context.Context, s *conn, arg, key string, how rerunning, output *command.Choice) error {
	id, err := a.job(ctx, s, arg)
	if err != nil {
		return err
	}
	if start, err := a.approveRerun(ctx, s, id, how.yes); !start {
		return err
	}
	if key == "" {
		key = rand.Text()
	}
	rerun := s.Rerun
	if how.failed {
		rerun = s.RerunFailed
	}
	again, err := rerun(ctx, id, key)
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(again.JobView)
	}
	a.Tell("submitted %s again; `tradewind status -w %s%s` follows it", id, again.ID, a.brokerHint(s))
	return a.Printf("%s\n", again.ID)
}
