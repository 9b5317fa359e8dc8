package cli

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// jobStates are the states by which jobs can be listed.
var jobStates = []string{
	string(apitypes.JobPlanning), string(apitypes.JobWaiting), string(apitypes.JobRunning),
	string(apitypes.JobSuspending), string(apitypes.JobSuspended), string(apitypes.JobEnding),
	string(apitypes.JobSucceeded), string(apitypes.JobFailed), string(apitypes.JobCancelled),
}

// filter chooses the jobs of a list.
type filter struct {
	states      []string
	queue, name string
	limit       int
}

func (f *filter) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.states, "job-state", nil, "list only jobs in these states: running,waiting")
	c.Flags().StringVar(&f.queue, "queue", "", "list only jobs of this queue")
	c.Flags().StringVar(&f.name, "name", "", "list only jobs with this name; * stands for any text, ? for one "+
		"character")
	c.Flags().IntVar(&f.limit, "limit", 20, "maximum number of jobs to list")
	_ = c.RegisterFlagCompletionFunc("job-state", cobra.FixedCompletions(jobStates, cobra.ShellCompDirectiveNoFileComp))
}

// some reports whether only some jobs are listed.
func (f *filter) some() bool { return len(f.states) > 0 || f.queue != "" || f.name != "" }

func (f *filter) check(given []string) error {
	if f.limit < 1 || f.limit > maxListedJobs {
		return command.BadInput("", "--limit: %d is not between 1 and %d", f.limit, maxListedJobs)
	}
	if len(given) > 0 && f.some() {
		return command.BadInput("leave out one of them", "JOB is one job; --job-state, --queue and --name list several")
	}
	for _, s := range f.states {
		if !slices.Contains(jobStates, s) {
			return command.BadInput(fault.OneOf(s, jobStates), "--job-state: unknown state %q", s)
		}
	}
	if _, err := path.Match(f.name, ""); err != nil {
		return command.BadInput("", "--name: %q is not a pattern: a [ has no ]", f.name)
	}
	return nil
}

// list returns the newest matching jobs. With a filter it looks at the newest maxListedJobs.
func (f *filter) list(ctx context.Context, s *conn) (*apitypes.JobList, error) {
	limit := f.limit
	if f.some() {
		limit = maxListedJobs
	}
	list, err := s.Jobs(ctx, limit)
	if err != nil || !f.some() {
		return list, err
	}
	list.Next = ""
	list.Jobs = slices.DeleteFunc(list.Jobs, func(j apitypes.JobView) bool { return !f.matches(&j) })
	list.Jobs = list.Jobs[:min(len(list.Jobs), f.limit)]
	return list, nil
}

func (f *filter) matches(j *apitypes.JobView) bool {
	named := f.name == "" || strings.EqualFold(f.name, j.Name)
	if !named {
		named, _ = path.Match(f.name, j.Name)
	}
	return named && (f.queue == "" || f.queue == j.Queue) &&
		(len(f.states) == 0 || slices.Contains(f.states, string(j.State)))
}
