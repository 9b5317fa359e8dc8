package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/buckets"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/serving"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// reconcile compares what is recorded with what runs, and sets going again whatever a crash, a lost message or a
// cloud left half done. Every remedy is an event or an idempotent call, so that doing it needlessly does no harm.
func (b *Functions) reconcile(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.BrokerReconcile)
	if !ok {
		return unexpected(events.FnReconcile, e.Data)
	}
	// Machines first: whatever is listed was intended before, so one without a record now has been given up.
	machines, listErr := b.machines(ctx)
	errs := []error{listErr}
	known := map[string]bool{}
	goOn := func(after string) events.Data { return events.BrokerReconcile{After: after} }
	errs = append(errs, b.walk(ctx, events.FnReconcile, e.ID, data.After, goOn, func(u *unit.Unit, w *walked) error {
		return b.reconcileJob(u, e.ID, w, machines, known)
	}))
	if data.After == "" { // what belongs to no job does not wait for all of them
		errs = append(errs, b.orphans(ctx, machines, known), b.RemoveBuckets(ctx, e.ID),
			b.ports.Store.Sweep(ctx, b.txns.Now()))
	}
	if err := errors.Join(slices.DeleteFunc(errs, b.leftToNext)...); err != nil {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return nil
}

// RemoveBuckets removes the buckets that were made for jobs which have all ended. Reconcile does it, and so may a host
// that is about to stop.
func (b *Functions) RemoveBuckets(ctx context.Context, cause string) error {
	return buckets.Keeper{Txns: b.txns, Data: b.ports.Data}.Remove(ctx, cause)
}

// leftToNext says of a cloud's failure that it is no reason to do all of it again at once: the next look comes by
// itself, and an outage would only fill the dead letters.
func (b *Functions) leftToNext(err error) bool {
	var c *cloud.Error
	is := errors.As(err, &c)
	if is {
		b.log.Warn("reconcile", "err", err)
	}
	return is
}

func (b *Functions) machines(ctx context.Context) (attempt.Inventory, error) {
	all := attempt.Inventory{Asked: b.txns.Now(), Of: map[string]map[string][]cloud.Machine{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b.ports.Clouds)) {
		list, err := b.ports.Clouds[name].Machines(ctx, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		of := map[string][]cloud.Machine{}
		for _, m := range list {
			if m.State != cloud.Terminated {
				of[m.Cluster] = append(of[m.Cluster], m)
			}
		}
		all.Of[name] = of
	}
	return all, errors.Join(errs...)
}

// orphans terminates machines that no record speaks for. The records of known clusters have been seen.
func (b *Functions) orphans(ctx context.Context, machines attempt.Inventory, known map[string]bool) error {
	var errs []error
	u := b.txns.NewUnit(ctx, events.FnReconcile)
	for _, name := range slices.Sorted(maps.Keys(machines.Of)) {
		ids := slices.DeleteFunc(slices.Sorted(maps.Keys(machines.Of[name])), func(id string) bool { return known[id] })
		keys := make([]store.Key, len(ids))
		for i, id := range ids {
			keys[i] = record.ClusterKey(id)
		}
		if err := u.Preload(keys...); err != nil {
			errs = append(errs, err)
			continue
		}
		for i, id := range ids {
			_, found, err := book.Get[record.Cluster](u, keys[i])
			if err == nil && !found {
				b.log.Warn("terminating machines that no record speaks for", "cloud", name, "cluster", id)
				err = b.ports.Clouds[name].Terminate(ctx, id)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// reconcileJob looks after one job and its clusters. Of one that merely waits nothing more is read, and nothing told:
// its queue is noted. The clusters that it has are noted as known.
func (b *Functions) reconcileJob(u *unit.Unit, cause string, w *walked, machines attempt.Inventory,
	known map[string]bool) error {
	var errs []error
	if d := decideNudge(w, b.cfg, u.Now); len(d.Writes)+len(d.Emits) > 0 {
		w.done++
		nudge := func(u *unit.Unit) error {
			jobs, err := loadWalked(u, w.job.ID)
			if err != nil || len(jobs) == 0 {
				return record.OrSkip(err)
			}
			return u.Apply(decideNudge(&jobs[0], b.cfg, u.Now))
		}
		errs = append(errs, b.txns.Transact(u.Ctx, events.FnReconcile, cause+"/"+w.job.ID, false, nudge))
	}
	w.wake, w.rest = w.waits() || w.job.Serves, w.mayRest(u.Now)
	if w.ledger.Outstanding == 0 {
		return errors.Join(errs...) // a cluster is outstanding from before it is intended until after it is gone
	}
	clusters, err := book.List[record.Cluster](u, record.JobPart(w.job.ID), record.ClusterPrefix, 0)
	errs = append(errs, err)
	if slices.ContainsFunc(clusters, attempt.Keeps) {
		errs = append(errs, b.lookSuspended(u, cause, w.job), serving.GoOn(u.Ctx, b.txns, cause, w.job))
	}
	for _, cl := range clusters {
		known[cl.ID] = true
		if attempt.Diagnose(cl, b.cfg, machines, u.Now) != attempt.RemedyNone {
			w.done++
			errs = append(errs, b.treat(u.Ctx, cause, cl.ID, machines))
		}
	}
	w.done++
	return errors.Join(errs...)
}

// decideNudge sets a job going again that waits for a time, or for an event that must have been given up.
func decideNudge(w *walked, cfg record.Config, now time.Time) (d record.Decision) {
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
		if w.idle() && !w.waits() { // nothing is announced, nor is anything under way that would have it announced
			d.Emit(events.DAGAdvance{Job: job.ID})
		}
	case apitypes.JobEnding:
		d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(job.Outcome)})
	case apitypes.JobSucceeded, apitypes.JobFailed, apitypes.JobCancelled:
		d.Del(record.ActiveKey(job.ID))
	}
	return d
}

// neverCame has others not be sent to where a cluster never came up.
func (b *Functions) neverCame(u *unit.Unit, cl record.Cluster, d *record.Decision) error {
	if cl.Assigned() {
		return b.pools.Blame(u, cl)
	}
	return keepOff(u, b.cfg, cl, d, attempt.UnheardBlock)
}

// treat diagnoses a cluster again within a unit, and acts on it.
func (b *Functions) treat(ctx context.Context, cause, id string, machines attempt.Inventory) error {
	return b.txns.Transact(ctx, events.FnReconcile, cause+"/"+id, false, func(u *unit.Unit) error {
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
				if err := b.neverCame(u, l.Cluster, &d); err != nil {
					return err
				}
			}
			return u.Apply(d)
		}
		if l.Attempt.Monthly { // its queue's record is written by schedule alone
			return u.Emit(events.LeaseDue{Cluster: id, Job: l.Job.ID, Queue: l.Job.Queue})
		}
		ledger, _, err := book.Get[record.Ledger](u, record.LedgerKey(l.Job.ID))
		if err != nil {
			return err
		}
		d, _ := attempt.DecideLease(l, ledger, nil, b.cfg, u.Now)
		return u.Apply(d)
	})
}
