package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func (a *app) submitCommand() *cobra.Command {
	var to submission
	c := &cobra.Command{
		Use:   "submit FILE [-- ARG...]",
		Short: "Submit a DAG to the running broker and return",
		Long: "Submits the DAG in FILE to the broker of the state folder (`tradewind up`), or to a remote broker\n" +
			"(--endpoint), and prints the job's ID. - is standard input.\n" +
			"\n" +
			"If the broker buys machines, the command first shows the plan and asks for a yes. Without a terminal,\n" +
			"a job that costs more than confirmAbove in `tradewind config` needs --yes.",
		Example: "  tradewind submit job.yaml --queue research\n" +
			"  tradewind status -w $(tradewind submit job.yaml)\n" +
			"  tradewind submit nightly.yaml --key nightly-$(date +%F)\n" +
			"  tradewind submit chat.yaml --update last          # replace its services, one replica after the other\n" +
			"  HF_TOKEN=… tradewind submit train.yaml --secret HF_TOKEN --secret WANDB=ssm:/team/wandb",
		Args: scriptArgs, ValidArgsFunction: command.CompleteFile,
	}
	over := jobfile.OverrideFlags(c, true)
	limits, secrets := jobfile.LimitFlags(c), jobfile.SecretFlags(c)
	a.brokerFlags(c, &to.state)
	a.cloudFlag(c, &to.clouds)
	agreed := consentFlags(c)
	a.completeQueue(c, &to.state)
	c.Flags().StringVar(&to.key, "key", "",
		"idempotency key: submissions with the same key and job name create only one job (default: a new key)")
	c.Flags().StringVar(&to.update, "update", "",
		"instead of creating a job, update the services of this job to the file")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		packing := limits.Options(a.warnNotPacked)
		over.Args = given[1:]
		f, err := a.loadJob(c.Context(), given[0], over, secrets, packing)
		if err != nil {
			return err
		}
		if err := onClouds(f, "", to.clouds); err != nil {
			return err
		}
		if to.key == "" {
			to.key = rand.Text()
		}
		p, err := a.propose(f, agreed, len(to.clouds) > 0, output)
		if err != nil {
			return err
		}
		return a.submitTo(c.Context(), p, packing, to)
	}
	return c
}

// submission says where and how a job is submitted.
type submission struct {
	state       string
	clouds      []string
	key, update string // the idempotency key, and the job whose services are updated
}

// submitTo submits a job to a running broker. It prints only the ID to standard output, for scripts.
func (a *app) submitTo(ctx context.Context, p *proposal, o pack.Options, to submission) error {
	ctx, cancel := a.Stop.Context(ctx)
	defer cancel()
	s, err := a.running(ctx, to.state, "run the job")
	if err != nil {
		return err
	}
	f, output, update := p.file, p.output, to.update
	if update != "" {
		if update, err = a.job(ctx, s, update); err != nil {
			return err
		}
	}
	a.planOn(p, s, to.state, "", to.clouds)
	if start, err := a.approve(ctx, p); !start {
		return err
	}
	id, err := a.submitJob(ctx, s, f, o, to.key, update)
	if err != nil {
		return err
	}
	d, err := a.awaitPlan(ctx, s, id)
	if err != nil {
		return err
	}
	if output.JSON() {
		return errors.Join(a.PrintJSON(d.JobView), refusal(d, a.brokerHint(s)))
	}
	if err := refusal(d, a.brokerHint(s)); err != nil {
		return err
	}
	if update != "" {
		a.Tell("updating its services; `tradewind status %s%s` shows the progress", id, a.brokerHint(s))
		return a.Printf("%s\n", id)
	}
	a.Tell("submitted %s; `tradewind status -w %s%s` follows it", text.Count(len(f.Spec.Tasks), "task"), id,
		a.brokerHint(s))
	return a.Printf("%s\n", id)
}

// plannedWithin is how long submit waits for the first plan of a job. A job that is still being planned then continues.
const plannedWithin = 20 * time.Second

// awaitPlan waits until a job has a first plan, has none, or waits for one, and returns the job. Its pauses are short
// at first, because most jobs are planned within milliseconds.
func (a *app) awaitPlan(ctx context.Context, s *conn, id string) (*apitypes.JobDetail, error) {
	until := a.Now().Add(plannedWithin)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		d, err := s.Job(ctx, id)
		if err != nil || d.State != apitypes.JobPlanning || a.Now().After(until) {
			return d, err
		}
		if err := clock.Pause(ctx, pause); err != nil {
			a.Tell("interrupted: %s is submitted and continues", id)
			return d, err
		}
	}
}

// refusal returns the error of a job that is infeasible, or nil.
func refusal(d *apitypes.JobDetail, broker string) error {
	if !infeasibleJob(d) {
		return nil
	}
	return &command.Failure{Code: command.ExitInfeasible,
		Text: "infeasible: " + strings.TrimPrefix(text.Clean(d.Reason), "no feasible plan: "),
		Hint: "nothing was bought; `tradewind explain " + d.ID + broker + "` has the details"}
}
