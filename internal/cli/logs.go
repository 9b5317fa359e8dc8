package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/onmachine"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

func (a *app) logsCommand() *cobra.Command {
	var state string
	var o logOptions
	c := &cobra.Command{
		Use:   "logs JOB [TASK]",
		Short: "Show what tasks printed",
		Long: "Shows the output of a task. Without TASK, shows the output of all tasks of the job, and begins each\n" +
			"line with the name of its task. With --follow, shows new output until the task has finished, also\n" +
			"after retries. If a task on several machines failed, shows the output of the machine that failed\n" +
			"first; --rank selects another. JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind logs last train\n  tradewind logs last -f\n  tradewind logs last train -n 20\n" +
			"  tradewind logs last train --since 10m --timestamps\n" +
			"  tradewind logs train-infer train --attempt 1 --rank 3",
		Args: command.Args(1, 2), ValidArgsFunction: a.completeJob(&state, true),
	}
	a.brokerFlags(c, &state)
	f := c.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "show new output until the task has finished")
	f.IntVar(&o.Attempt, "attempt", 0, "number of the attempt, which is one try of the task (default: the latest)")
	f.IntVar(&o.Rank, "rank", 0,
		"machine of a task that runs on several, counted from 0 (default: the one that\nfailed, or 0)")
	f.IntVarP(&o.Lines, "tail", "n", 0, "begin with the last `N` lines; 0 is none (default: all)")
	since := command.Moment{Now: a.Now}
	f.Var(&since, "since", "begin with the first line printed at this time or this long ago: 10m, 2026-01-31T15:04:05Z")
	f.BoolVar(&o.Timestamps, "timestamps", false, "begin each line with its time (UTC)")
	c.RunE = func(c *cobra.Command, given []string) error {
		o.Since = since.Value
		if o.none = f.Changed("tail") && o.Lines == 0; o.none {
			o.Since = a.Now() // what is printed from now on
		}
		if min(o.Attempt, o.Rank, o.Lines) < 0 {
			return command.BadInput("", "--attempt, --rank and --tail must be at least 0")
		}
		o.anyRank = !f.Changed("rank") && !o.Follow
		return a.reading(c, state, func(ctx context.Context, s *conn) error { return a.logs(ctx, s, given, o) })
	}
	return c
}

// logOptions are the flags of logs.
type logOptions struct {
	client.LogOptions
	anyRank bool // show the machine that failed
	none    bool // show no earlier line
}

// clientOptions returns the options for the log of one task. If the user named no machine and the attempt failed on
// one of several, they select that machine.
func (o logOptions) clientOptions(d *apitypes.JobDetail, t *apitypes.TaskView) client.LogOptions {
	number := cmp.Or(o.Attempt, t.Attempts)
	for i := range d.Attempts {
		x := &d.Attempts[i]
		failed := x.Task == t.Index && x.Number == number && x.Failure != (apitypes.Failure{})
		if o.anyRank && failed && x.Nodes > 1 {
			o.Rank = x.Failure.Rank
		}
	}
	return o.LogOptions
}

func (a *app) logs(ctx context.Context, s *conn, given []string, o logOptions) error {
	id, err := a.job(ctx, s, given[0])
	if err != nil {
		return err
	}
	if s.passive {
		o.Follow = false // there will be no more output
	}
	if o.none && !o.Follow {
		return nil
	}
	if len(given) > 1 && !o.anyRank {
		return a.copyLog(ctx, s, id, given[1], o.LogOptions)
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case len(given) > 1:
		options := o.LogOptions
		if t := taskNamed(detail, given[1]); t != nil {
			options = a.taskOptions(detail, t, o)
		}
		return a.copyLog(ctx, s, id, given[1], options)
	case len(detail.TaskList) == 1:
		return a.copyLog(ctx, s, id, detail.TaskList[0].Name, a.taskOptions(detail, &detail.TaskList[0], o))
	}
	return a.allLogs(ctx, s, detail, o)
}

// taskNamed returns the task with a name or an index, or nil.
func taskNamed(d *apitypes.JobDetail, name string) *apitypes.TaskView {
	i := slices.IndexFunc(d.TaskList, func(t apitypes.TaskView) bool {
		return t.Name == name || strconv.Itoa(t.Index) == name
	})
	if i < 0 {
		return nil
	}
	return &d.TaskList[i]
}

// taskOptions returns the options for one task, and says which of several machines is shown.
func (a *app) taskOptions(d *apitypes.JobDetail, t *apitypes.TaskView, o logOptions) client.LogOptions {
	options := o.clientOptions(d, t)
	if o.anyRank && t.Nodes > 1 {
		why := ""
		if options.Rank > 0 {
			why = ", which failed"
		}
		a.Tell("%s ran on %d machines: this is the output of rank %d%s; --rank shows another", text.Clean(t.Name),
			t.Nodes, options.Rank, why)
	}
	return options
}

// copyLog prints the log of one task unchanged.
func (a *app) copyLog(ctx context.Context, s *conn, id, task string, o client.LogOptions) error {
	r, err := s.Log(ctx, id, task, o)
	if client.Status(err) == http.StatusNotFound {
		return a.noLog(ctx, s, id, task, err)
	}
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read
	_, err = io.Copy(a.Out, r)
	return errors.Join(ctx.Err(), err)
}

// noLog reports an unknown task name if that is why there is no log. A task may also be named by its index.
func (a *app) noLog(ctx context.Context, s *conn, id, task string, why error) error {
	if _, err := strconv.Atoi(task); err == nil {
		return why
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return why
	}
	return cmp.Or(onmachine.CheckTask(detail, task), why)
}

// followedAtOnce is the maximum number of logs followed together.
const followedAtOnce = 64

// allLogs prints the logs of all tasks, each line after its task's name: one after the other or, with --follow, as they
// are printed.
func (a *app) allLogs(ctx context.Context, s *conn, d *apitypes.JobDetail, o logOptions) error {
	if o.Follow && len(d.TaskList) > followedAtOnce {
		return command.BadInput("name one of them", "%s has %d tasks; at most %d are followed together", d.ID,
			len(d.TaskList), followedAtOnce)
	}
	if !slices.ContainsFunc(d.TaskList, func(t apitypes.TaskView) bool {
		return (o.Follow || o.Attempt <= t.Attempts) && o.Rank < max(t.Nodes, 1)
	}) {
		return noAttempt(d, o.LogOptions)
	}
	longest := 0
	for i := range d.TaskList {
		longest = max(longest, text.Width(d.TaskList[i].Name))
	}
	p := text.NewLines(a.Out, a.Style(a.Out), min(longest, 24))
	if !o.Follow {
		for i := range d.TaskList {
			if err := a.prefixedLog(ctx, s, d.ID, &d.TaskList[i], o.clientOptions(d, &d.TaskList[i]), p); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, len(d.TaskList))
	for i := range d.TaskList {
		wg.Go(func() { errs[i] = a.prefixedLog(ctx, s, d.ID, &d.TaskList[i], o.LogOptions, p) })
	}
	wg.Wait()
	has := slices.DeleteFunc(errs, func(err error) bool { return client.Status(err) == http.StatusNotFound })
	if len(has) == 0 && o.Attempt > 0 {
		return noAttempt(d, o.LogOptions)
	}
	return cmp.Or(has...) // one cause usually breaks all of them
}

func noAttempt(d *apitypes.JobDetail, o client.LogOptions) error {
	return command.BadInput("", "no task of %s has attempt %d on rank %d", d.ID, o.Attempt, o.Rank)
}

func (a *app) prefixedLog(ctx context.Context, s *conn, id string, t *apitypes.TaskView, o client.LogOptions,
	p *text.Lines) error {
	if !o.Follow && o.Attempt > t.Attempts || o.Rank >= max(t.Nodes, 1) {
		return nil // this task has fewer attempts; another has enough
	}
	r, err := s.Log(ctx, id, t.Name, o)
	if client.Status(err) == http.StatusNotFound && !o.Follow {
		return nil // no attempt yet
	}
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read
	return errors.Join(ctx.Err(), p.Copy(t.Name, r))
}
