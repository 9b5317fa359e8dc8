package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// removal are the flags of rm.
type removal struct {
	finished, yes bool
	olderThan     command.Span
	output        *command.Choice
}

func (a *app) removeCommand() *cobra.Command {
	var state string
	var o removal
	c := &cobra.Command{
		Use:   "rm JOB...",
		Short: "Remove finished jobs with their logs and outputs",
		Long: "Removes finished jobs: their records, their logs, and their outputs in the broker's own store. Outputs\n" +
			"at a URI of the job file, the figures of `tradewind usage`, and learned run times stay. JOB is an ID,\n" +
			"the beginning of one, or \"last\". The command asks before it removes anything; in a script, use --yes.",
		Example: "  tradewind rm train-infer\n  tradewind rm --all-finished --older-than 30d --yes",
		Args:    command.Args(0, maxListedJobs), ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	c.Flags().BoolVar(&o.finished, "all-finished", false, "remove every finished job")
	c.Flags().Var(&o.olderThan, "older-than", "with --all-finished: remove only jobs that finished at least this long "+
		"ago: 12h, 30d")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "remove without a question")
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case o.finished == (len(given) > 0):
			return command.BadInput("", "name jobs, or use --all-finished")
		case o.olderThan.Value > 0 && !o.finished:
			return command.BadInput("", "--older-than needs --all-finished")
		}
		return a.reading(c, state, func(ctx context.Context, s *conn) error { return a.remove(ctx, s, given, o) })
	}
	return c
}

// Removed is the output of `rm -o json`.
type Removed struct {
	Removed []string `json:"removed"`
}

func (a *app) remove(ctx context.Context, s *conn, given []string, o removal) error {
	ids, err := a.toRemove(ctx, s, given, o)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		if yes, err := a.confirmRemoval(ctx, ids, o.yes); !yes {
			return err
		}
	}
	out := Removed{Removed: []string{}}
	for _, id := range ids {
		_, removed := s.Remove(ctx, id)
		if client.Status(removed) == http.StatusConflict {
			removed = command.Because(removed, command.ExitFailed, "`tradewind cancel "+id+"` ends it",
				"%s has not finished", id)
		}
		if err = errors.Join(err, removed); removed == nil {
			out.Removed = append(out.Removed, id)
		}
	}
	switch {
	case o.output.JSON():
		return errors.Join(a.PrintJSON(out), err)
	case len(ids) == 0:
		a.Tell("no finished job matches")
	case len(out.Removed) == 1:
		return errors.Join(a.Printf("removed %s\n", out.Removed[0]), err)
	case len(out.Removed) > 0:
		return errors.Join(a.Printf("removed %s\n", text.Count(len(out.Removed), "job")), err)
	}
	return err
}

// toRemove returns the IDs of the named jobs, or of all finished ones.
func (a *app) toRemove(ctx context.Context, s *conn, given []string, o removal) (ids []string, err error) {
	for _, arg := range given {
		id, one := a.job(ctx, s, arg)
		if err = errors.Join(err, one); one == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !o.finished {
		return ids, err
	}
	for after, more := "", true; more; {
		list, err := s.JobsAfter(ctx, after, maxListedJobs)
		if err != nil {
			return nil, err
		}
		for i := range list.Jobs {
			if old(&list.Jobs[i], list.Now, o.olderThan.Value) {
				ids = append(ids, list.Jobs[i].ID)
			}
		}
		after, more = list.Next, list.Next != ""
	}
	return ids, nil
}

// old reports whether a job finished at least some time ago.
func old(j *apitypes.JobView, now time.Time, age time.Duration) bool {
	return j.State.Finished() && (age == 0 || now.Sub(j.Finished) >= age)
}

// confirmRemoval asks whether to remove jobs.
func (a *app) confirmRemoval(ctx context.Context, ids []string, yes bool) (bool, error) {
	what := ids[0]
	if len(ids) > 1 {
		what = text.Count(len(ids), "job")
	}
	switch {
	case yes:
		return true, nil
	case a.Ask == nil:
		return false, command.BadInput("--yes removes without a question", "nothing was removed: rm asks on a terminal")
	}
	got, err := a.Ask(ctx, "Remove "+what+" with logs and outputs? [y/N] ")
	if got = strings.ToLower(got); err == nil && (got == "y" || got == "yes") {
		return true, nil
	}
	return false, command.Failed("", "nothing was removed")
}

// keptText says how long a finished job is kept; "" for a job that has not finished.
func keptText(j *apitypes.JobView) string {
	switch {
	case !j.State.Finished():
		return ""
	case j.Expires.IsZero():
		return "kept forever, or until `tradewind rm` removes it"
	}
	return "kept until " + j.Expires.Local().Format("2006-01-02 15:04")
}
