package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

func (a *app) submitCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "submit FILE",
		Short: "Hand a DAG to the broker that runs and return",
		Long:  "Hands the DAG in FILE to the broker that works on the state folder (`tradewind up`), or to one\nelsewhere (--endpoint), and prints the job's ID. - is standard input.",
		Example: "  tradewind submit job.yaml --queue research\n" +
			"  tradewind status -w $(tradewind submit job.yaml)",
		Args: args(1, 1), ValidArgsFunction: completeFile,
	}
	over := overrideFlags(c, true)
	a.brokerFlags(c, &state)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		f, err := a.loadJob(given[0], over)
		if err != nil {
			return err
		}
		return a.submitTo(c.Context(), f, state, output)
	}
	return c
}

// submitTo hands a job to a broker that runs. Standard output gets the ID alone, for other programs.
func (a *app) submitTo(ctx context.Context, f *jobFile, state string, output *choice) error {
	s, err := a.running(ctx, state, "run the job")
	if err != nil {
		return err
	}
	id, err := a.handIn(ctx, s, f)
	if err != nil {
		return err
	}
	if output.json() {
		list, err := s.Job(ctx, id)
		if err != nil {
			return err
		}
		return a.printJSON(list.JobView)
	}
	a.tell("submitted %s; `tradewind status -w %s%s` follows it", text.Count(len(f.spec.Tasks), "task"), id, a.brokerHint(s))
	return a.printf("%s\n", id)
}
