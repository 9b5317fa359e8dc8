package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin is how long completion may block the shell.
const completeWithin = 2 * time.Second

// completing completes the first N arguments (N = most) with words from the broker. If the broker does not answer in
// time, it offers none.
func (a *app) completing(
	state *string, words func(ctx context.Context, s *conn, given []string,
		typed string) ([]string, cobra.ShellCompDirective), most int,
) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(given) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
		defer cancel()
		s, err := a.read(ctx, *state)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.Close() //nolint:errcheck // completion cannot report errors
		return words(ctx, s, given, typed)
	}
}

// completeQueue completes the flag --queue of a command with the names of the broker's queues.
func (a *app) completeQueue(c *cobra.Command, state *string) {
	complete := a.completing(state,
		func(ctx context.Context, s *conn, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			list, err := s.Queues(ctx)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var words []string
			for _, q := range list.Queues {
				if strings.HasPrefix(q.Name, typed) {
					words = append(words, q.Name)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		}, 1)
	_ = c.RegisterFlagCompletionFunc("queue", func(c *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return complete(c, nil, typed)
	})
}

// boolToInt returns 1 if more, otherwise 0.
func boolToInt(more bool) int {
	if more {
		return 1
	}
	return 0
}

// completeJob completes a job ID as the first argument and, if tasks, a task name as the second.
func (a *app) completeJob(state *string, tasks bool) cobra.CompletionFunc {
	return a.completing(state,
		func(ctx context.Context, s *conn, given []string, typed string) ([]string, cobra.ShellCompDirective) {
			const none = cobra.ShellCompDirectiveNoFileComp
			if len(given) == 1 {
				return a.completeTask(ctx, s, given[0], typed), none
			}
			list, err := s.Jobs(ctx, maxListedJobs)
			if err != nil {
				return nil, none
			}
			var words []string
			for _, j := range list.Jobs {
				if strings.HasPrefix(j.ID, typed) {
					words = append(words, cobra.CompletionWithDesc(j.ID, string(j.State)))
				}
			}
			if strings.HasPrefix("last", typed) {
				words = append(words, cobra.CompletionWithDesc("last", "the newest job"))
			}
			return words, none | cobra.ShellCompDirectiveKeepOrder
		}, 1+boolToInt(tasks))
}

func (a *app) completeTask(ctx context.Context, s *conn, job, typed string) []string {
	id, err := a.job(ctx, s, job)
	if err != nil {
		return nil
	}
	detail, err := s.Job(ctx, id)
	if err != nil {
		return nil
	}
	var words []string
	for i := range detail.TaskList {
		if t := &detail.TaskList[i]; strings.HasPrefix(t.Name, typed) {
			words = append(words, cobra.CompletionWithDesc(t.Name, t.State))
		}
	}
	return words
}
