package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// suspendBrokers returns how the suspend and resume commands find their broker.
func (a *app) suspendBrokers() SuspendBrokers {
	return SuspendBrokers{
		Flags: func(c *cobra.Command, state *string) {
			a.brokerFlags(c, state)
			c.ValidArgsFunction = a.completeJob(state, false)
		},
		Find: func(ctx context.Context, state string) (*Target, error) {
			s, err := a.read(ctx, state)
			if err != nil {
				return nil, err
			}
			f := &Target{SuspendBroker: s, Close: s.Close,
				Job:    func(ctx context.Context, name string) (string, error) { return a.job(ctx, s, name) },
				Detail: s.Job,
				Queued: func(ctx context.Context, queue string) ([]string, error) { return queuedJobs(ctx, s, queue) }}
			if s.passive {
				f.StoppedState = s.state
			}
			return f, nil
		},
	}
}

// queueLister is the part of the API that finds the jobs of a queue.
type queueLister interface {
	Jobs(ctx context.Context, limit int) (*apitypes.JobList, error)
	Queues(ctx context.Context) (*apitypes.QueueList, error)
}

// queuedJobs returns the IDs of the unfinished jobs of a queue and of the queues below it.
func queuedJobs(ctx context.Context, s queueLister, queue string) (ids []string, err error) {
	list, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	parent := map[string]string{}
	for i := range list.Queues {
		parent[list.Queues[i].Name] = list.Queues[i].Parent
	}
	below := func(name string) bool {
		for range len(parent) + 1 {
			if name == queue {
				return true
			}
			if name = parent[name]; name == "" {
				return false
			}
		}
		return false
	}
	jobs, err := s.Jobs(ctx, maxListedJobs)
	if err != nil {
		return nil, err
	}
	for i := range jobs.Jobs {
		if j := &jobs.Jobs[i]; !j.State.Finished() && below(j.Queue) {
			ids = append(ids, j.ID)
		}
	}
	return ids, nil
}
