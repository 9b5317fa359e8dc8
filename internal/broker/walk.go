package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// span is a part of the unfinished jobs, in the order of their IDs: those after one ID up to another. Without an end,
// it has all jobs that follow.
type span struct{ after, until string }

// has reports whether a job that is not before the span belongs to it.
func (s span) has(job string) bool { return s.until == "" || job <= s.until }

// A job rests for restFor if it was submitted at least restAfter ago, holds nothing, and only waits in its queue.
const (
	restAfter    = 30 * time.Minute
	restFor      = 24 * time.Hour
	restTogether = 20 // jobs, with four records each
)

// walked is one job as reconcile and tick see it.
type walked struct {
	job      record.Job
	ledger   record.Ledger
	progress record.Progress // only for a job that runs and holds nothing
	// done counts the work on the job. wake states whether its queue needs a session, and rest whether the job may
	// rest.
	done       int
	wake, rest bool
}

// mayRest reports whether a job holds nothing and waits only in its queue: not for a price or a time, nor for a plan
// that the planner could not make, which only reconcile requests again.
func (w *walked) mayRest(now time.Time) bool {
	return w.waits() && !w.job.Waits && w.job.Deadline.IsZero() && w.job.PlanTries == (record.PlanTries{}) &&
		now.Sub(w.job.Submitted) >= restAfter
}

// idle reports whether a job is running but holds no machines.
func (w *walked) idle() bool { return w.job.State == apitypes.JobRunning && w.ledger.Outstanding == 0 }

// waits reports whether the job holds no machines and one of its tasks waits in its queue.
func (w *walked) waits() bool {
	return w.idle() && slices.Contains(w.progress.Phases, record.PhaseReady)
}

// walk checks the unfinished jobs of a span. Then it emits one CapacityFreed for each queue that needs a session,
// however many of its jobs wait, and an event of goOn for each remaining part of the span. An error of look does not
// stop it from checking the next job. If the same event is delivered twice, only one of the two deliveries continues.
// Otherwise each repeated delivery would double all that follow.
func (b *Functions) walk(ctx context.Context, fn, cause string, jobs span, goOn func(span) events.Data,
	look func(*txn.Unit, *walked) error) error {
	wake := map[string]bool{}
	var rest []string
	resting := func(queue string) {
		if fn == events.FnReconcile { // a tick changes nothing for jobs that only wait in their queue
			wake[queue] = true
		}
	}
	last, err := b.walkPage(ctx, fn, jobs, resting, func(u *txn.Unit, w *walked) error {
		err := look(u, w)
		if w.wake {
			wake[w.job.Queue] = true
		}
		if w.rest {
			rest = append(rest, w.job.ID)
		}
		return err
	})
	for ids := range slices.Chunk(rest, restTogether) {
		err = errors.Join(err, b.rest(ctx, fn, cause, ids))
	}
	var tell []events.Data
	if last != "" {
		left, lost := b.divide(ctx, span{last, jobs.until})
		err = errors.Join(err, lost)
		for _, s := range left {
			tell = append(tell, goOn(s))
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(wake)) {
		tell = append(tell, events.CapacityFreed{Queue: queue})
	}
	n := 0
	for part := range slices.Chunk(tell, txn.Full) {
		err = errors.Join(err,
			b.txns.Transact(ctx, fn, fmt.Sprintf("%s/tell/%d", cause, n), true, func(u *txn.Unit) error {
				return u.Apply(record.Decision{Emits: part})
			}))
		n++
	}
	return err
}

// divide divides a span without an end into parts that are checked at the same time. The last part has no end either.
// A span with an end is already one of these parts, and is not divided.
func (b *Functions) divide(ctx context.Context, all span) (parts []span, err error) {
	for all.until == "" && len(parts) < b.cfg.Walk.Spans {
		page := store.Page{After: all.after, Limit: b.cfg.Walk.Span}
		index, more, err := b.ports.Store.Query(ctx, record.PartActive, "", page)
		if err != nil {
			return []span{all}, err
		}
		if !more {
			break
		}
		last := index[len(index)-1].Key.Sort
		parts, all.after = append(parts, span{all.after, last}), last
	}
	return append(parts, all), nil
}

// rest makes jobs rest that only wait in their queues.
func (b *Functions) rest(ctx context.Context, fn, cause string, ids []string) error {
	return b.txns.Transact(ctx, fn, cause+"/rest/"+ids[0], false, func(u *txn.Unit) error {
		jobs, err := loadWalked(u, ids...)
		if err != nil {
			return err
		}
		var d record.Decision
		for i := range jobs {
			if jobs[i].mayRest(u.Now) {
				d.Rest(jobs[i].job, jobs[i].ledger, u.Now.Add(restFor))
			}
		}
		return u.Apply(d)
	})
}

// walkPage checks as many jobs as one invocation may check. It returns the last one, or "" when there are no more. It
// calls resting with the queue of each resting job.
func (b *Functions) walkPage(ctx context.Context, fn string, jobs span, resting func(queue string),
	look func(*txn.Unit, *walked) error) (last string, err error) {
	var errs []error
	after := jobs.after
	for done := 0; done < b.cfg.Walk.Most; done += 2 {
		page := store.Page{After: after, Limit: b.cfg.Walk.Together}
		index, more, err := b.ports.Store.Query(ctx, record.PartActive, "", page)
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		u := b.txns.NewUnit(ctx, fn)
		var ids []string
		for _, r := range index {
			if !jobs.has(r.Key.Sort) {
				more = false
				break
			}
			var i record.JobIndex
			if err := recordcache.Unmarshal(r.Body, &i); err == nil && u.Now.Before(i.RestsUntil) {
				resting(i.Queue)
			} else {
				ids = append(ids, r.Key.Sort)
			}
		}
		loaded, err := loadWalked(u, ids...)
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		for i := range loaded {
			errs = append(errs, look(u, &loaded[i]))
			done += loaded[i].done
		}
		if !more {
			return "", errors.Join(errs...)
		}
		after = index[len(index)-1].Key.Sort
	}
	return after, errors.Join(errs...)
}

// loadWalked reads the records of some jobs together.
func loadWalked(u *txn.Unit, ids ...string) (jobs []walked, err error) {
	var keys []store.Key
	for _, id := range ids {
		keys = append(keys, record.JobKey(id), record.LedgerKey(id))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	keys = keys[:0]
	for _, id := range ids {
		var w walked
		var found bool
		if w.job, found, err = recordcache.Get[record.Job](u, record.JobKey(id)); err != nil {
			return nil, err
		}
		if w.ledger, _, err = recordcache.Get[record.Ledger](u, record.LedgerKey(id)); err != nil {
			return nil, err
		}
		if found {
			jobs = append(jobs, w)
		}
		if found && w.idle() {
			keys = append(keys, record.ProgressKey(w.job.ID))
		}
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for i := range jobs {
		if w := &jobs[i]; w.idle() {
			if w.progress, _, err = recordcache.Get[record.Progress](u, record.ProgressKey(w.job.ID)); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// Idle reports whether no job is open, no finished job has to be removed, and no event waits to be published. A host
// may then stop polling.
func (b *Functions) Idle(ctx context.Context) (bool, error) {
	open, err := recordcache.List[record.JobIndex](b.txns.NewUnit(ctx, events.FnReconcile), record.PartActive, "", 1)
	if err != nil || len(open) > 0 {
		return false, err
	}
	if due, err := b.expiryDue(ctx); err != nil || due {
		return false, err
	}
	pending, err := b.ports.Store.Outbox(ctx, 1)
	return len(pending) == 0, err
}
