package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// reconcile compares what is recorded with what runs, and sets going again whatever a crash, a lost message or a
// cloud left half done. Every remedy is an event or an idempotent call, so that doing it needlessly does no harm.
func (b *Broker) reconcile(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.BrokerReconcile)
	if !ok {
		return unexpected(events.FnReconcile, e.Data)
	}
	// Machines first: whatever is listed was intended before, so one without a record now has been given up.
	machines, listErr := b.machines(ctx)
	errs := []error{listErr}
	if data.After == "" { // what belongs to no job does not wait for all of them
		errs = append(errs, b.orphans(ctx, machines), b.expireBlocks(ctx, e.ID), b.store.Sweep(ctx, b.now()))
	}
	wake := map[string]bool{}
	last, err := b.walk(ctx, events.FnReconcile, data.After, func(u *unit, w *walked) (int, error) {
		return b.reconcileJob(u, e.ID, w, machines, wake)
	})
	var next []events.Data
	if last != "" {
		next = append(next, events.BrokerReconcile{After: last})
	}
	errs = append(errs, err, b.tellLater(ctx, events.FnReconcile, e.ID, wake, next...))
	if err := errors.Join(slices.DeleteFunc(errs, b.leftToNext)...); err != nil {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return nil
}

// leftToNext says of a cloud's failure that it is no reason to do all of it again at once: the next look comes by itself, and an
// outage would only fill the dead letters.
func (b *Broker) leftToNext(err error) bool {
	var c *cloud.Error
	is := errors.As(err, &c)
	if is {
		b.log.Warn("reconcile", "err", err)
	}
	return is
}

// inventory is what one cloud says it runs for us, by cluster; nil where the cloud did not answer.
type inventory map[string]map[string][]cloud.Machine

func (b *Broker) machines(ctx context.Context) (inventory, error) {
	all := inventory{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b.Clouds)) {
		list, err := b.Clouds[name].Machines(ctx, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all[name] = map[string][]cloud.Machine{}
		for _, m := range list {
			if m.State != cloud.Terminated {
				all[name][m.Cluster] = append(all[name][m.Cluster], m)
			}
		}
	}
	return all, errors.Join(errs...)
}

// activeJobs lists the jobs that are not over.
func (b *Loader) activeJobs(ctx context.Context) ([]string, error) {
	u := b.newUnit(ctx, events.FnReconcile)
	index, err := list[JobIndex](u, partActive, "", 0)
	ids := make([]string, len(index))
	for i, j := range index {
		ids[i] = j.ID
	}
	return ids, err
}

// orphans terminates machines that no record speaks for.
func (b *Broker) orphans(ctx context.Context, machines inventory) error {
	var errs []error
	u := b.newUnit(ctx, events.FnReconcile)
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		ids := slices.Sorted(maps.Keys(machines[name]))
		keys := make([]store.Key, len(ids))
		for i, id := range ids {
			keys[i] = clusterKey(id)
		}
		if err := u.preload(keys...); err != nil {
			errs = append(errs, err)
			continue
		}
		for i, id := range ids {
			_, found, err := get[Cluster](u, keys[i])
			if err == nil && !found {
				b.log.Warn("terminating machines that no record speaks for", "cloud", name, "cluster", id)
				err = b.Clouds[name].Terminate(ctx, id)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// expireBlocks forgets blocks that ended long enough ago not to count as in a row any more.
func (b *Broker) expireBlocks(ctx context.Context, cause string) error {
	return b.transact(ctx, events.FnReconcile, cause+"/blocks", false, func(u *unit) error {
		blocks, err := list[Block](u, partBlocks, "", 0)
		if err != nil {
			return err
		}
		var d Decision
		for _, k := range blocks {
			if u.now.Sub(k.Until) > 4*b.cfg.BlockFor[k.Kind] && len(d.Writes) < unitFull {
				d.del(blockKey(k))
			}
		}
		return u.apply(d)
	})
}

// reconcileJob looks after one job and its clusters. Of one that merely waits nothing more is read, and nothing told:
// its queue is noted.
func (b *Broker) reconcileJob(
	u *unit, cause string, w *walked, machines inventory, wake map[string]bool,
) (done int, err error) {
	var errs []error
	if d := decideNudge(w, b.cfg, u.now); len(d.Writes)+len(d.Emits) > 0 {
		done++
		errs = append(errs, b.transact(u.ctx, events.FnReconcile, cause+"/"+w.job.ID, false, func(u *unit) error {
			jobs, err := loadWalked(u, w.job.ID)
			if err != nil || len(jobs) == 0 {
				return orSkip(err)
			}
			return u.apply(decideNudge(&jobs[0], b.cfg, u.now))
		}))
	}
	if w.waits() {
		wake[w.job.Queue] = true
	}
	if w.ledger.Outstanding == 0 {
		return done, errors.Join(errs...) // a cluster is outstanding from before it is intended until after it is gone
	}
	clusters, err := list[Cluster](u, jobPart(w.job.ID), clusterPrefix, 0)
	errs = append(errs, err)
	for _, cl := range clusters {
		if diagnose(cl, b.cfg, machines, u.now) != remedyNone {
			done++
			errs = append(errs, b.treat(u.ctx, cause, cl.ID, machines))
		}
	}
	return done + 1, errors.Join(errs...)
}

// decideNudge sets a job going again that waits for a time, or for an event that must have been given up.
func decideNudge(w *walked, cfg Config, now time.Time) (d Decision) {
	job := w.job
	switch job.State {
	case JobWaiting:
		if !now.Before(job.RetryAt) {
			d.emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: "trying again"})
		}
	case JobPlanning:
		if now.Sub(job.Submitted) > cfg.StuckFor {
			if job.Plan.IsZero() {
				d.emit(events.DAGReplan{Job: job.ID, Reason: "trying again"})
			} else {
				d.emit(events.DAGPlanned{Job: job.ID, Plan: job.Plan.Version, Status: "again"})
			}
		}
	case JobRunning:
		if w.idle() && !w.waits() { // nothing is announced, nor is anything under way that would have it announced
			d.emit(events.DAGAdvance{Job: job.ID})
		}
	case JobEnding:
		d.emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(job.Outcome)})
	case JobSucceeded, JobFailed, JobCancelled:
		d.del(activeKey(job.ID))
	}
	return d
}

// remedy is what reconcile does about a cluster.
type remedy int

const (
	remedyNone    remedy = iota
	remedyLaunch         // its launch was left half done: provision goes on with it
	remedyRelease        // its release was, or its attempt is over: provision goes on with it
	remedyLost           // its machines are gone or silent
	remedyTaken          // it was doomed and its time is over
	remedyRun            // it is up and was never told to run
	remedyLease          // what was set aside for it is nearly used up
)

// diagnose finds what is wrong with a cluster.
func diagnose(cl Cluster, cfg Config, machines inventory, now time.Time) remedy {
	age := now.Sub(cl.Since)
	switch {
	case cl.State == ClusterReleasing:
		return pick(age > cfg.StuckFor || due(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case cl.Outcome != "":
		return pick(age > cfg.StuckFor || due(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case due(cl, cfg, now): // whatever state it is in, it costs
		return remedyLease
	case cl.State == ClusterLaunching:
		return pick(age > cfg.StuckFor, remedyLaunch)
	case gone(cl, cfg, machines, now):
		return remedyLost
	case cl.State == ClusterDoomed:
		return pick(now.After(cl.Until.Add(cfg.StuckFor)), remedyTaken)
	case cl.State == ClusterBooting:
		return pick(age > cfg.BootWithin, remedyLost)
	case cl.Command == "":
		return pick(age > cfg.StuckFor, remedyRun)
	case silent(cl, cfg.SilentFor, now):
		return remedyLost
	default:
		return remedyNone
	}
}

// due says that what was set aside for a cluster is nearly used up: what is left is for the next look at it, a quarter of
// the overhead later at most, and for its release.
func due(cl Cluster, cfg Config, now time.Time) bool {
	return !cl.LeaseUntil.IsZero() && now.After(cl.LeaseUntil.Add(-cfg.Overhead/2))
}

func pick(is bool, r remedy) remedy {
	if is {
		return r
	}
	return remedyNone
}

// gone says that the cloud no longer runs all machines of a cluster. A cloud that did not answer says nothing, and
// one may take a while to list what it has just launched.
func gone(cl Cluster, cfg Config, machines inventory, now time.Time) bool {
	known, ok := machines[cl.Offer.Cloud]
	lag := cfg.StuckFor
	if cl.Offer.Cloud == PoolCloud { // which lists what is in the records, and what is lost as lost
		lag = min(lag, cfg.Pool.LostAfter)
		if !silent(cl, cfg.Pool.LostAfter, now) {
			return false // its agents have been heard of, since the list was made perhaps
		}
	}
	if !ok || now.Sub(cl.Launched) < lag {
		return false
	}
	return len(known[cl.ID]) < len(cl.Nodes)
}

// silent says that a node has not been heard of for too long, since it was told to run.
func silent(cl Cluster, limit time.Duration, now time.Time) bool {
	if now.Sub(cl.Since) <= limit {
		return false
	}
	for _, n := range cl.Nodes {
		if !n.Done && now.Sub(n.Seen) > limit {
			return true
		}
	}
	return false
}

// treat diagnoses a cluster again within a unit, and acts on it.
func (b *Broker) treat(ctx context.Context, cause, id string, machines inventory) error {
	return b.transact(ctx, events.FnReconcile, cause+"/"+id, false, func(u *unit) error {
		l, found, err := loadLosing(u, id)
		if err != nil || !found {
			return orSkip(err)
		}
		r := diagnose(l.cl, b.cfg, machines, u.now)
		b.log.Info("reconcile", "cluster", id, "state", l.cl.State, "remedy", int(r))
		if r != remedyLease {
			if r == remedyLost && l.cl.State == ClusterBooting && l.cl.Offer.Cloud == PoolCloud {
				if err := b.blame(u, l.cl); err != nil {
					return err
				}
			}
			if r == remedyRun {
				return b.start(u, l.cl)
			}
			return u.apply(decideRemedy(r, l, u.now))
		}
		ledger, _, err := get[Ledger](u, ledgerKey(l.job.ID))
		if err != nil {
			return err
		}
		return u.apply(decideLease(l, ledger, b.cfg, u.now))
	})
}

func decideRemedy(r remedy, l losing, now time.Time) (d Decision) {
	switch r {
	case remedyLaunch:
		l.cl.Since = now // not again before it has had its time
		d.put(clusterKey(l.cl.ID), l.cl)
		d.emit(events.TaskAdmitted{Job: l.cl.Job, Task: l.cl.Task, Attempt: l.cl.Attempt})
	case remedyRelease:
		l.cl.Since = now
		d.put(clusterKey(l.cl.ID), l.cl)
		d.emit(events.ClusterRelease{Cluster: l.cl.ID, Job: l.cl.Job, Reason: "its release was overdue"})
	case remedyLost:
		return decideLost(l, OutcomeLost, "its machines are gone or silent", now)
	case remedyTaken:
		return decideLost(l, l.cl.taken(), l.cl.Reason, now)
	case remedyNone, remedyLease, remedyRun:
	}
	return d
}

// decideLease sets more of the budget aside for an attempt that takes longer than expected, or stops it before it
// would overspend.
func decideLease(l losing, ledger Ledger, cfg Config, now time.Time) (d Decision) {
	rate := l.cl.ceiling() * float64(len(l.cl.Nodes))
	if rate <= 0 {
		l.cl.LeaseUntil = time.Time{}
		d.put(clusterKey(l.cl.ID), l.cl)
		return d
	}
	// It was set aside at the most that it could cost: what it has cost less lasts longer.
	until := l.cl.covered(cfg.TickEvery, now)
	left := l.job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
	more := 0.0
	if until.Sub(l.cl.LeaseUntil) < cfg.Overhead/4 {
		more = max(min(left, rate*hours(l.cl.LeaseUntil.Add(cfg.Overhead).Sub(until))), 0)
		until = until.Add(duration(more / rate))
	}
	if until.Sub(l.cl.LeaseUntil) >= cfg.Overhead/4 {
		l.cl.LeaseUntil = until
		l.cl.ReservedUSD += more
		d.put(clusterKey(l.cl.ID), l.cl)
		if more > 0 {
			ledger.ReservedUSD += more
			d.put(ledgerKey(l.job.ID), ledger)
		}
		return d
	}
	reason := fmt.Sprintf("task %d needs more than what is left of the budget of %.2f USD", l.cl.Task, l.job.BudgetUSD)
	l.cl.Outcome, l.cl.Reason = OutcomeBudget, reason
	l.cl.Seq++
	l.cl.Command = string(wire.Stop)
	l.attempt.Outcome, l.attempt.Reason, l.attempt.Ended = OutcomeBudget, reason, now
	d.put(clusterKey(l.cl.ID), l.cl)
	d.put(attemptKey(l.cl.Job, l.cl.Task, l.cl.Attempt), l.attempt)
	d.emit(events.TaskFailed{
		Job: l.cl.Job, Task: l.cl.Task, Attempt: l.cl.Attempt, Cluster: l.cl.ID, ExitCode: -1, Final: true, Message: reason,
	})
	return d
}
