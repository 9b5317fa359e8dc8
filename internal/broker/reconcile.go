package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// reconcile compares the records with the running machines, and repairs what a crash, a lost message or a cloud left
// unfinished. Every remedy is an event or an idempotent call, so an unnecessary one does no harm.
func (b *Functions) reconcile(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.BrokerReconcile)
	if !ok {
		return unexpected(events.FnReconcile, e.Data)
	}
	// Machines are listed first. Each listed machine was recorded before, so a machine without a record now was given
	// up.
	machines, listErr := b.machines(ctx)
	errs := []error{listErr}
	if data.After == "" { // once in each run, and first: if much is broken, the walk may not end in its time
		errs = append(errs, b.orphans(ctx, machines))
	}
	goOn := func(s span) events.Data { return events.BrokerReconcile{After: s.after, Until: s.until} }
	jobs := span{data.After, data.Until}
	errs = append(errs, b.walk(ctx, events.FnReconcile, e.ID, jobs, goOn, func(u *txn.Unit, w *walked) error {
		return b.reconcileJob(u, e.ID, w, machines)
	}))
	if data.After == "" { // once in each run: records that belong to no job
		errs = append(errs, b.RemoveBuckets(ctx, e.ID), b.expire(ctx, e.ID),
			b.ports.Store.Sweep(ctx, b.txns.Now()))
	}
	if err := errors.Join(slices.DeleteFunc(errs, b.isCloudFailure)...); err != nil {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return nil
}

// RemoveBuckets removes the buckets that were created for jobs that have all ended. Reconcile calls it. A host that
// is about to stop may call it as well.
func (b *Functions) RemoveBuckets(ctx context.Context, cause string) error {
	return Keeper{Txns: b.txns, Data: b.ports.Data}.Remove(ctx, cause)
}

// isCloudFailure reports whether an error is a cloud's failure, and logs it. For such a failure the event is not
// delivered again: the next reconcile comes anyway, and an outage would only fill the dead letters.
func (b *Functions) isCloudFailure(err error) bool {
	var c *cloud.Error
	is := errors.As(err, &c)
	if is {
		b.log.Warn("reconcile", "err", err)
	}
	return is
}

func (b *Functions) machines(ctx context.Context) (attempt.Inventory, error) {
	all := attempt.Inventory{Asked: b.txns.Now(), Of: map[string]map[string][]cloud.Machine{},
		Faults: map[string]map[string]string{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b.ports.Clouds)) {
		list, err := b.ports.Clouds[name].Machines(ctx, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		of, faults := map[string][]cloud.Machine{}, map[string]string{}
		for _, m := range list {
			if m.State != cloud.Terminated {
				of[m.Cluster] = append(of[m.Cluster], m)
			}
			if m.Fault != "" {
				faults[m.Cluster] = m.Fault
			}
		}
		all.Of[name], all.Faults[name] = of, faults
	}
	return all, errors.Join(errs...)
}

// orphans terminates machines without a record.
func (b *Functions) orphans(ctx context.Context, machines attempt.Inventory) error {
	var errs []error
	u := b.txns.NewUnit(ctx, events.FnReconcile)
	for _, name := range slices.Sorted(maps.Keys(machines.Of)) {
		ids := slices.Sorted(maps.Keys(machines.Of[name]))
		keys := make([]store.Key, len(ids))
		for i, id := range ids {
			keys[i] = record.ClusterKey(id)
		}
		if err := u.Preload(keys...); err != nil {
			errs = append(errs, err)
			continue
		}
		for i, id := range ids {
			_, found, err := recordcache.Get[record.Cluster](u, keys[i])
			if err == nil && !found {
				b.log.Warn("terminating machines without a record", "cloud", name, "cluster", id)
				err = b.ports.Clouds[name].Terminate(ctx, id)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// reconcileJob checks one job and its clusters. For a job that only waits in its
// queue it reads nothing more and emits nothing. It marks the queue for a session.
func (b *Functions) reconcileJob(u *txn.Unit, cause string, w *walked, machines attempt.Inventory) error {
	var errs []error
	if d := decideNudge(w, b.cfg, u.Now); len(d.Writes)+len(d.Emits) > 0 {
		w.done++
		nudge := func(u *txn.Unit) error {
			jobs, err := loadWalked(u, w.job.ID)
			if err != nil || len(jobs) == 0 {
				return record.OrSkip(err)
			}
			return u.Apply(decideNudge(&jobs[0], b.cfg, u.Now))
		}
		errs = append(errs, b.txns.Transact(u.Ctx, events.FnReconcile, cause+"/"+w.job.ID, false, nudge))
	}
	beside, err := waitsBesideRunning(u, w)
	errs = append(errs, err)
	w.wake, w.rest = w.waits() || beside || w.job.Serves, w.mayRest(u.Now)
	if w.ledger.Outstanding == 0 {
		return errors.Join(errs...) // a cluster counts from before its intent until after it is gone
	}
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(w.job.ID), record.ClusterPrefix, 0)
	errs = append(errs, err)
	if slices.ContainsFunc(clusters, attempt.Holds) {
		errs = append(errs, b.recheckSuspended(u, cause, w.job), Continue(u.Ctx, b.txns, cause, w.job))
	}
	if slices.ContainsFunc(clusters, func(cl record.Cluster) bool { return cl.Shared() }) {
		workers, err := b.pools.Workers(u.Ctx, w.job.ID)
		if errs = append(errs, err); err == nil && machines.Of[apitypes.PoolCloud] != nil {
			dropEndedWorkers(workers, w.job, clusters)
			maps.Copy(machines.Of[apitypes.PoolCloud], workers)
		}
	}
	for _, cl := range clusters {
		if attempt.Diagnose(cl, b.cfg, machines, u.Now) != attempt.RemedyNone {
			w.done++
			errs = append(errs, b.applyRemedy(u.Ctx, cause, cl.ID, machines))
		}
	}
	w.done++
	return errors.Join(errs...)
}

// dropEndedWorkers removes the attempts on workers whose own attempt has ended, so that silent ones count as lost. A
// worker leaves its pool only after its cloud has ended the machine, and a cloud that refuses calls may take hours.
func dropEndedWorkers(workers map[string][]cloud.Machine, job record.Job, clusters []record.Cluster) {
	ended := map[string]bool{}
	for _, cl := range clusters {
		if cl.Task >= job.Tasks && cl.Outcome != "" {
			ended[record.WorkerName(cl.Task, cl.Attempt)] = true
		}
	}
	maps.DeleteFunc(workers, func(_ string, on []cloud.Machine) bool {
		return slices.ContainsFunc(on, func(m cloud.Machine) bool { return ended[m.ID] })
	})
}

// The waiting tasks of a job that holds machines are checked once in lookEvery, at some time in the first lookFor of
// that interval. lookFor is longer than the time between two reconciles.
const (
	lookEvery = 10 * time.Minute
	lookFor   = 2 * time.Minute
)

// waitsBesideRunning reports whether a task of a job that holds machines waits in a queue that may later get capacity
// back from other queues: the queue has a parent, preempts, or has a monthly budget.
func waitsBesideRunning(u *txn.Unit, w *walked) (bool, error) {
	if w.job.State != apitypes.JobRunning || w.idle() || u.Now.Sub(u.Now.Truncate(lookEvery)) >= lookFor {
		return false, nil
	}
	q, _, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(w.job.Queue))
	if err != nil || q.Parent == "" && !q.Preempt && q.Max[apitypes.USDPerMonth] <= 0 {
		return false, err
	}
	progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(w.job.ID))
	return slices.Contains(progress.Phases, record.PhaseReady), err
}

// decideNudge restarts a job that waits for a time that has come, or for an event that must have been lost.
func decideNudge(w *walked, cfg config.Config, now time.Time) (d record.Decision) {
	job := w.job
	switch job.State {
	case apitypes.JobWaiting:
		if !now.Before(job.RetryAt) {
			d.Emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: "trying again"})
		}
	case apitypes.JobPlanning:
		switch {
		case now.Sub(job.Submitted) <= cfg.StuckFor:
		case job.Plan.IsZero():
			d.Emit(events.DAGReplan{Job: job.ID, Reason: "trying again"})
		default:
			d.Emit(events.DAGPlanned{Job: job.ID, Plan: job.Plan.Version, Status: "again"})
		}
	case apitypes.JobRunning:
		t := &job.PlanTries
		if t.Failed > 0 && now.Sub(t.FailedAt) > cfg.StuckFor && !t.Rests(now, cfg.Simulated(record.PlanRest)) {
			d.Emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: "trying again"})
		}
		if w.idle() && !w.waits() { // no task is announced, and none runs whose end would announce one
			d.Emit(events.DAGAdvance{Job: job.ID})
		}
	case apitypes.JobEnding:
		d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(job.Outcome)})
	case apitypes.JobSucceeded, apitypes.JobFailed, apitypes.JobCancelled:
		d.Del(record.ActiveKey(job.ID))
	}
	return d
}

// blockUnheard blocks the location of a cluster that never came up, or the machine of its pool. fault is the reason
// why its machines could not start, if settings of the account are the cause.
func (b *Functions) blockUnheard(u *txn.Unit, cl record.Cluster, fault string, d *record.Decision) error {
	if cl.Assigned() {
		return b.pools.BlameSilent(u, cl)
	}
	if fault != "" {
		return blockLocation(u, b.cfg, cl, d, attempt.FaultBlock(fault))
	}
	return blockLocation(u, b.cfg, cl, d, attempt.UnheardBlock)
}

// applyRemedy diagnoses a cluster again in a unit, and applies the remedy.
func (b *Functions) applyRemedy(ctx context.Context, cause, id string, machines attempt.Inventory) error {
	return b.txns.Transact(ctx, events.FnReconcile, cause+"/"+id, false, func(u *txn.Unit) error {
		l, found, err := attempt.LoadLosing(u, id)
		if err != nil || !found {
			return record.OrSkip(err)
		}
		r := attempt.Diagnose(l.Cluster, b.cfg, machines, u.Now)
		b.log.Debug("reconcile", "cluster", id, "state", l.Cluster.State, "remedy", int(r))
		if r != attempt.RemedyLease {
			if r == attempt.RemedyRun {
				return b.start(u, l.Cluster)
			}
			d := attempt.DecideRemedy(r, l, b.cfg, machines, u.Now)
			if r == attempt.RemedyLost && l.Cluster.State == record.ClusterBooting {
				if err := b.blockUnheard(u, l.Cluster, machines.Fault(l.Cluster), &d); err != nil {
					return err
				}
			}
			return u.Apply(d)
		}
		if l.Attempt.Monthly { // only schedule writes its queue's record
			return u.Emit(events.LeaseDue{Cluster: id, Job: l.Job.ID, Queue: l.Job.Queue})
		}
		ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(l.Job.ID))
		if err != nil {
			return err
		}
		d, _ := attempt.DecideLease(l, ledger, nil, b.cfg, u.Now)
		return u.Apply(d)
	})
}
