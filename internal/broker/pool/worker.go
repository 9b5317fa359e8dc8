package pool

import (
	"context"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// loadWorker loads the records of a machine that is a worker. It fails with ErrGone if the worker's attempt has ended.
func (s *syncing) loadWorker() error {
	id, ok := record.JobOfPool(s.claims.Pool)
	if !ok {
		return nil
	}
	task, attempt, ok := record.WorkerAttempt(s.claims.Machine)
	if !ok {
		return poolGone("no worker of a job has the name " + s.claims.Machine)
	}
	cl, found, err := recordcache.Get[record.Cluster](s.u, record.ClusterKey(record.ClusterID(id, task, attempt)))
	if err != nil {
		return err
	}
	if !found || cl.State == record.ClusterReleasing || cl.Outcome != "" {
		return poolGone("worker " + s.claims.Machine + " was released")
	}
	if cl.State == record.ClusterDoomed {
		s.taken = cl.Until
	}
	if s.job, _, err = recordcache.Get[record.Job](s.u, record.JobKey(id)); err != nil {
		return err
	}
	if s.spec, err = s.u.Spec(s.job); err != nil {
		return err
	}
	if i, known := s.part.Machine(s.claims.Machine); known {
		s.worker = &s.part.Machines[i].Worker
		return nil
	}
	made, _, err := recordcache.Get[apitypes.Attempt](s.u, record.AttemptKey(id, task, attempt))
	s.worker = &record.PoolWorker{Task: task, Attempt: attempt, Group: s.spec.Tasks[task].Worker.Group, Offer: cl.Offer,
		OfferID: made.OfferID}
	return err
}

const secondsPerHour = 3600

// idleMost is the time after which a worker leaves on which nothing runs, although tasks wait for a worker: none of
// them fits on it.
const idleMost = 10 * time.Minute

// mayLeave reports whether a worker should end: no task runs on it, and keeping it costs more than it can save. While
// another task may arrive, it can save the cost of another machine until that machine is up. A worker that takes no
// more tasks saves nothing.
func (s *syncing) mayLeave() (bool, error) {
	w := &s.m.Worker
	if len(s.m.Uses) > 0 || s.m.Leaving {
		return false, nil
	}
	progress, _, err := recordcache.Get[record.Progress](s.u, record.ProgressKey(s.job.ID))
	if err != nil {
		return false, err
	}
	if w.IdleSince.IsZero() {
		w.IdleSince, s.changed = s.u.Now, true
	}
	drains, err := s.drains(progress)
	if err != nil {
		return false, err
	}
	idle, worth := s.u.Now.Sub(w.IdleSince), time.Duration(0)
	switch {
	case drains:
	case s.job.State.Finished() || s.job.Suspended() != nil:
	case record.Unplaced(s.spec, progress, &s.part, w.Group) > 0:
		worth = idleMost
	case record.Unfinished(s.spec, progress, w.Group):
		worth = hardware.BillingOf(w.Offer.Cloud).Minimum + record.Duration(w.Offer.BootSeconds/secondsPerHour)
	}
	if idle < worth {
		return false, nil
	}
	if !s.m.Draining {
		s.m.Draining, s.changed = true, true
	}
	return true, nil
}

// drains reports whether the worker takes no more tasks, by the job's plan.
func (s *syncing) drains(progress record.Progress) (bool, error) {
	plan, err := s.u.Plan(s.job)
	if err != nil || plan == nil {
		return false, err
	}
	return slices.Contains(plan.Drained(s.spec, progress, &s.part, s.worker.Group, s.u.Now), s.worker.Task), nil
}

// full reports whether no task of the worker's share group fits on it in addition to its current tasks.
func (s *syncing) full() bool {
	free := s.m.Capacity
	for i := range s.m.Uses {
		hold := &s.m.Uses[i].Hold
		free.CPUs -= hold.CPUs
		free.MemoryGiB -= hold.MemoryGiB
		free.Accelerators -= hold.Accelerators
	}
	fits := func(r dag.Resources) bool {
		return r.CPUs.Min <= free.CPUs+epsilon && r.Memory.Min <= free.MemoryGiB+epsilon &&
			record.Accelerators(&r) <= free.Accelerators+epsilon
	}
	for i := range s.spec.Tasks {
		if t := &s.spec.Tasks[i]; t.ShareGroup == s.m.Worker.Group+1 && slices.ContainsFunc(t.Resources, fits) {
			return false
		}
	}
	return true
}

// epsilon is the tolerance for rounding errors in a sum of amounts.
const epsilon = 1e-9

// lostMost is the maximum number of a lost worker's tasks that get an event in the transaction that removes the
// worker. Reconcile finds the other tasks.
const lostMost = 24

// RemoveWorker removes a worker whose machine is gone from the pool of its job. The tasks on it lose their attempts
// and are tried again elsewhere.
func (b *Keeper) RemoveWorker(u *txn.Unit, job string, task, attempt int) error {
	key := record.PartitionKey(record.JobPool(job), 0)
	part, _, err := recordcache.Get[record.Partition](u, key)
	if err != nil {
		return err
	}
	var d record.Decision
	i, here := part.Machine(record.WorkerName(task, attempt))
	if !here {
		d.Hold(key) // so that a concurrent join of the machine conflicts, and then sees that its cluster is gone
		return u.Apply(d)
	}
	uses := part.Machines[i].Uses
	part.Machines = slices.Delete(part.Machines, i, i+1)
	d.Put(key, part)
	for _, use := range uses[:min(len(uses), lostMost)] {
		d.Emit(events.SpotInterrupted{Cluster: use.Cluster, Job: job, Kind: string(cloud.Taken), At: u.Now})
	}
	return u.Apply(d)
}

// Workers returns the attempts on the workers of a job, by cluster, like [Cloud.Machines] for other pools. It omits
// attempts that are admitted but not launched, because reconcile would end those as machines without a record.
func (b *Keeper) Workers(ctx context.Context, job string) (map[string][]cloud.Machine, error) {
	c := Cloud{b}
	list, err := c.list(ctx, record.JobPool(job), "")
	if err == nil {
		list, err = c.intended(ctx, list)
	}
	out := map[string][]cloud.Machine{}
	for _, m := range list {
		out[m.Cluster] = append(out[m.Cluster], m)
	}
	return out, err
}
