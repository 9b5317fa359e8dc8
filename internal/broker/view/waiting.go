package view

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// WhyWaiting explains why a job's tasks wait in their queue. It runs a session like schedule, and commits nothing. It
// fails with ErrNotFound.
func (b *Views) WhyWaiting(ctx context.Context, id string) (*apitypes.Why, error) {
	u := b.txns.NewUnit(ctx, "api")
	job, err := LoadJob(u, id)
	if err != nil {
		return nil, err
	}
	ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(id))
	if err != nil {
		return nil, err
	}
	w := &apitypes.Why{Job: id, Queue: job.Queue, State: StateOf(job, ledger), Tasks: []apitypes.WhyTask{}}
	err = b.sessions.Run(u, job.Queue, func(s *session.Session) error { return s.ExplainTasks(w, job) })
	if err != nil {
		return nil, err
	}
	switch {
	case job.State.Finished():
		w.Reason = "it has finished"
	case job.State == apitypes.JobEnding:
		w.Reason = "it is ending: " + job.Reason
	case job.Suspended() != nil:
		w.Reason = "it is " + job.Suspended().String()
	case job.State == apitypes.JobPlanning:
		w.Reason = "it is being planned"
		if job.PlanTries.Failed > 0 {
			w.Reason += "; " + job.PlanTries.String()
		}
	case job.State == apitypes.JobWaiting:
		w.Reason = "no plan is feasible now: " + job.Reason
	case w.Waiting > 0 && b.sessions.PausedBecause() != "":
		w.Reason = b.sessions.PausedBecause()
	case w.Waiting == 0:
		w.Reason = "none of its tasks waits in the queue: they run, are starting, or wait for other tasks of the job"
	case len(w.Tasks) > 0 && len(w.Tasks[0].Reasons) > 0:
		w.Reason = w.Tasks[0].Reasons[0]
	default:
		w.Reason = "the next scheduling session decides on it"
	}
	return w, nil
}

// WaitedFor lists the spot markets that tasks wait for, as offer IDs without the market. Their prices must be known.
func (b *Views) WaitedFor(ctx context.Context) ([]string, error) {
	ids, err := b.txns.ActiveJobs(ctx)
	if err != nil {
		return nil, err
	}
	u := b.txns.NewUnit(ctx, "api")
	known := map[string]bool{}
	for _, id := range ids {
		job, _, err := recordcache.Get[record.Job](u, record.JobKey(id))
		if err != nil {
			return nil, err
		}
		if !job.Waits {
			continue
		}
		bids, err := u.Bids(job)
		if err != nil {
			return nil, err
		}
		for _, x := range bids.Begin {
			known[x.Market] = true
		}
	}
	return slices.Sorted(maps.Keys(known)), nil
}

// Clusters lists the clusters of unfinished jobs. It lists as many as it can even if it fails.
func (b *Views) Clusters(ctx context.Context) (all []record.Cluster, err error) {
	ids, err := b.txns.ActiveJobs(ctx)
	for _, id := range ids {
		u := b.txns.NewUnit(ctx, "api")
		clusters, lerr := recordcache.List[record.Cluster](u, record.JobPart(id), record.ClusterPrefix, 0)
		err = errors.Join(err, lerr)
		all = append(all, clusters...)
	}
	return all, err
}
