package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// What reconcile and tick look at in one invocation: they go on where they stopped by an event to themselves, so that
// no number of jobs takes longer than a function may, and what comes last is not starved.
const (
	walkTogether = 50  // jobs whose records are read together
	walkMost     = 500 // jobs that are looked at one by one, those read together counting as two
)

// A job that was submitted so long ago, holds nothing and merely waits in its queue rests for so long.
const (
	restAfter    = 30 * time.Minute
	restFor      = 24 * time.Hour
	restTogether = 20 // jobs, with four records each
)

// walked is one job as reconcile and tick meet it.
type walked struct {
	job      record.Job
	ledger   record.Ledger
	progress record.Progress // of one that runs and holds nothing
	// done is how much there was to do about it, wake whether its queue is to be looked at, and rest whether it may
	// rest.
	done       int
	wake, rest bool
}

// mayRest says that a job holds nothing and waits for nothing but its queue: no price and no date.
func (w *walked) mayRest(now time.Time) bool {
	return w.waits() && !w.job.Waits && w.job.Deadline.IsZero() && now.Sub(w.job.Submitted) >= restAfter
}

// idle says that a job runs of which nothing is under way.
func (w *walked) idle() bool { return w.job.State == apitypes.JobRunning && w.ledger.Outstanding == 0 }

// waits says that a task of it waits in its queue.
func (w *walked) waits() bool {
	return w.idle() && slices.Contains(w.progress.Phases, record.PhaseReady)
}

// walk looks at the jobs that are not over, from behind one on, and tells what it found: that queues are to be looked
// at, each once however many of its jobs wait, and by goOn where the next invocation goes on. The errors of look do not
// keep it from the next job.
func (b *Functions) walk(ctx context.Context, fn, cause, after string, goOn func(after string) events.Data,
	look func(*unit.Unit, *walked) error) error {
	wake := map[string]bool{}
	var rest []string
	resting := func(queue string) {
		if fn == events.FnReconcile { // a tick changes nothing for what waits for its queue alone
			wake[queue] = true
		}
	}
	last, err := b.walkSome(ctx, fn, after, resting, func(u *unit.Unit, w *walked) error {
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
		tell = append(tell, goOn(last))
	}
	for _, queue := range slices.Sorted(maps.Keys(wake)) {
		tell = append(tell, events.CapacityFreed{Queue: queue})
	}
	for part := range slices.Chunk(tell, unit.Full) {
		err = errors.Join(err,
			b.txns.Transact(ctx, fn, cause+"/"+part[0].Type()+"/"+part[0].Group(), false, func(u *unit.Unit) error {
				return u.Apply(record.Decision{Emits: part})
			}))
	}
	return err
}

// rest has jobs rest that may.
func (b *Functions) rest(ctx context.Context, fn, cause string, ids []string) error {
	return b.txns.Transact(ctx, fn, cause+"/rest/"+ids[0], false, func(u *unit.Unit) error {
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

// walkSome looks at as many jobs as one invocation may, and returns the last one; "" when there are no more. Of those
// that rest it tells the queue.
func (b *Functions) walkSome(ctx context.Context, fn, after string, resting func(queue string),
	look func(*unit.Unit, *walked) error) (last string, err error) {
	var errs []error
	for done := 0; done < walkMost; done += 2 {
		page := store.Page{After: after, Limit: walkTogether}
		index, more, err := b.ports.Store.Query(ctx, record.PartActive, "", page)
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		u := b.txns.NewUnit(ctx, fn)
		var ids []string
		for _, r := range index {
			var i record.JobIndex
			if err := book.Unmarshal(r.Body, &i); err == nil && u.Now.Before(i.RestsUntil) {
				resting(i.Queue)
			} else {
				ids = append(ids, r.Key.Sort)
			}
		}
		jobs, err := loadWalked(u, ids...)
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		for i := range jobs {
			errs = append(errs, look(u, &jobs[i]))
			done += jobs[i].done
		}
		if !more {
			return "", errors.Join(errs...)
		}
		after = index[len(index)-1].Key.Sort
	}
	return after, errors.Join(errs...)
}

// loadWalked reads the records of some jobs together.
func loadWalked(u *unit.Unit, ids ...string) (jobs []walked, err error) {
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
		if w.job, found, err = book.Get[record.Job](u, record.JobKey(id)); err != nil {
			return nil, err
		}
		if w.ledger, _, err = book.Get[record.Ledger](u, record.LedgerKey(id)); err != nil {
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
			if w.progress, _, err = book.Get[record.Progress](u, record.ProgressKey(w.job.ID)); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// Idle says that no job is open and no event waits to be published, so that a host may stop looking.
func (b *Functions) Idle(ctx context.Context) (bool, error) {
	open, err := book.List[record.JobIndex](b.txns.NewUnit(ctx, events.FnReconcile), record.PartActive, "", 1)
	if err != nil || len(open) > 0 {
		return false, err
	}
	pending, err := b.ports.Store.Outbox(ctx, 1)
	return len(pending) == 0, err
}
