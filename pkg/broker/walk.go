package broker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
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

// walked is one job as reconcile and tick meet it.
type walked struct {
	job      record.Job
	ledger   record.Ledger
	progress record.Progress // of one that runs and holds nothing
}

// idle says that a job runs of which nothing is under way.
func (w *walked) idle() bool { return w.job.State == record.JobRunning && w.ledger.Outstanding == 0 }

// waits says that a task of it waits in its queue.
func (w *walked) waits() bool {
	return w.idle() && slices.Contains(w.progress.Phases, record.PhaseReady)
}

// walk looks at the jobs that are not over, from behind one on, and returns the last one looked at; "" when there are
// no more. look says how much it had to do; its errors do not keep it from the next.
func (b *Broker) walk(
	ctx context.Context, fn, after string, look func(*unit.Unit, *walked) (done int, err error),
) (last string, err error) {
	var errs []error
	for done := 0; done < walkMost; done += 2 {
		index, more, err := b.Store.Query(ctx, record.PartActive, "", store.Page{After: after, Limit: walkTogether})
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		ids := make([]string, len(index))
		for i, r := range index {
			ids[i] = r.Key.Sort
		}
		u := b.NewUnit(ctx, fn)
		jobs, err := loadWalked(u, ids...)
		if err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		for i := range jobs {
			n, err := look(u, &jobs[i])
			done += n
			errs = append(errs, err)
		}
		if !more {
			return "", errors.Join(errs...)
		}
		after = ids[len(ids)-1]
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

// tellLater emits what a walk found: that queues are to be looked at, each once however many of its jobs wait, and
// where to go on.
func (b *Broker) tellLater(ctx context.Context, fn, cause string, wake map[string]bool, next ...events.Data) error {
	for _, queue := range slices.Sorted(maps.Keys(wake)) {
		next = append(next, events.CapacityFreed{Queue: queue})
	}
	for part := range slices.Chunk(next, unit.Full) {
		err := b.Transact(ctx, fn, cause+"/"+part[0].Type()+"/"+part[0].Group(), false, func(u *unit.Unit) error {
			return u.Apply(record.Decision{Emits: part})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
