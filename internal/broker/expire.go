package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Logs removes the logs of tasks.
type Logs interface {
	// ExpireLogs tells the store to remove the logs of a job's attempts at some time after at, if the store can do
	// that. RemoveLogs is called as well, possibly much later, and possibly when the records of the attempts are
	// gone.
	ExpireLogs(ctx context.Context, job string, attempts []LogOf, at time.Time) error
	// RemoveLogs removes all logs of a job's attempts. Removing them again is no error.
	RemoveLogs(ctx context.Context, job string, attempts []LogOf) error
}

// LogOf names the logs of an attempt. There is one log for each rank.
type LogOf struct {
	Attempt string
	Ranks   int
}

// ended loads the past of a job that the decision about its end needs.
func (b *Functions) ended(u *txn.Unit, job record.Job, spec *dag.Job) (jobstate.Ended, error) {
	held, err := heldBy(u.Ctx, b.ports.Store, job, u.Now)
	if err != nil {
		return jobstate.Ended{}, err
	}
	tree := map[string]*apitypes.Queue{}
	for name := job.Queue; name != "" && tree[name] == nil && len(tree) < record.MaxTree; name = tree[name].Parent {
		q, _, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(name))
		if err != nil {
			return jobstate.Ended{}, err
		}
		tree[name] = &q
	}
	return jobstate.Ended{Held: held, Keep: record.KeepOf(spec.Keep, job.Queue, tree, b.cfg.Keep)}, nil
}

// heldBy returns what the attempts of a job have held. It does not keep their records in memory, because there may be
// a hundred thousand.
func heldBy(ctx context.Context, s store.Store, job record.Job, now time.Time) (held []record.Holding, err error) {
	err = eachAttempt(ctx, s, job.ID, func(a apitypes.Attempt) { held = append(held, record.HoldingOf(job, &a, now)) })
	return held, err
}

func eachAttempt(ctx context.Context, s store.Store, job string, do func(apitypes.Attempt)) error {
	return eachRecord(ctx, s, record.JobPart(job), "attempt#", func(page []store.Record) error {
		for _, r := range page {
			var a apitypes.Attempt
			if err := recordcache.Unmarshal(r.Body, &a); err != nil {
				return err
			}
			do(a)
		}
		return nil
	})
}

// eachRecord calls do with the records of a partition, page by page.
func eachRecord(ctx context.Context, s store.Store, partition, prefix string, do func([]store.Record) error) error {
	after := ""
	for {
		page, more, err := s.Query(ctx, partition, prefix, store.Page{After: after})
		if err != nil {
			return err
		}
		if err := do(page); err != nil || !more {
			return err
		}
		after = page[len(page)-1].Key.Sort
	}
}

// Remove removes a finished job with its records, logs and outputs. It fails with ErrNotFound or ErrUnfinished. The
// next reconciles remove its data.
func (b *Users) Remove(ctx context.Context, id string) error {
	return b.txns.Transact(ctx, FnAPI, "remove/"+id, false, func(u *txn.Unit) error {
		job, err := view.LoadJob(u, id)
		if err != nil {
			return err
		}
		if !job.State.Finished() {
			return fmt.Errorf("job %s %w: cancel it first", id, record.ErrUnfinished)
		}
		return remove(u, b.ports.Store, job)
	})
}

// remove adds the removal of a finished job to a unit.
func remove(u *txn.Unit, s store.Store, job record.Job) error {
	if !job.Past.Summed { // the job finished under an older version
		held, err := heldBy(u.Ctx, s, job, u.Now)
		if err != nil {
			return err
		}
		job.Past.Summed, job.Past.Held = true, record.Sum(held)
	}
	var d record.Decision
	d.Remove(job, u.Now)
	return u.Apply(d)
}

// The maximum work of one reconcile on past jobs: the number of records and objects that it reads or removes. The
// next reconcile continues.
const maxExpired = 10_000

// expireAgain is the time after which a removed job is checked again, if other jobs still read its data.
const expireAgain = 24 * time.Hour

// errLater means that the maximum work was reached.
var errLater = errors.New("broker: the rest follows later")

// expire takes the steps that are due for the removal of finished jobs. It marks the records of jobs that will
// expire, and removes the data of jobs that have expired or that users have removed.
func (b *Functions) expire(ctx context.Context, cause string) error {
	x := &expiring{Functions: b, cause: cause, left: maxExpired}
	var errs []error
	after := ""
	for x.left > 0 {
		page := store.Page{After: after, Limit: b.cfg.Walk.Together}
		due, more, err := b.ports.Store.Query(ctx, record.PartExpiry, "", page)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, r := range due {
			if r.Key.Sort >= record.ExpiryBound(b.txns.Now().Add(1)) {
				return errors.Join(errs...)
			}
			after = r.Key.Sort
			if err := x.step(ctx, r); err != nil && !errors.Is(err, errLater) && !errors.Is(err, store.ErrConflict) {
				errs = append(errs, fmt.Errorf("expire %s: %w", r.Key.Sort, err))
			}
		}
		if !more {
			break
		}
	}
	return errors.Join(errs...)
}

// expiring is the state of one call of Functions.expire, which takes steps to remove finished jobs until a maximum of
// work is reached.
type expiring struct {
	*Functions
	cause string
	left  int // remaining work
}

// step takes the step that an Expiry describes.
func (x *expiring) step(ctx context.Context, r store.Record) error {
	var e record.Expiry
	if err := recordcache.Unmarshal(r.Body, &e); err != nil {
		return err
	}
	if !e.Marked {
		if err := x.mark(ctx, e); err != nil {
			return err
		}
		e.Marked = true
		return x.replace(ctx, r, &e, e.Expires)
	}
	job, err := x.retire(ctx, e)
	if err != nil {
		return err
	}
	if job.ID == "" { // the job is kept after all
		return x.replace(ctx, r, nil, time.Time{})
	}
	if read, err := x.isRead(ctx, job); err != nil {
		return err
	} else if read {
		return x.replace(ctx, r, &e, x.txns.Now().Add(expireAgain))
	}
	if err := x.clear(ctx, job); err != nil {
		return err
	}
	return x.replace(ctx, r, nil, time.Time{})
}

// replace replaces an Expiry whose step is done by the next one. If there is no next one, it only removes the old.
func (x *expiring) replace(ctx context.Context, r store.Record, next *record.Expiry, due time.Time) error {
	return x.txns.Transact(ctx, events.FnReconcile, x.cause+"/expiry/"+r.Key.Sort, false, func(u *txn.Unit) error {
		if _, found, err := recordcache.Get[record.Expiry](u, r.Key); err != nil || !found {
			return record.OrSkip(err)
		}
		var d record.Decision
		d.Del(r.Key)
		if next != nil {
			d.Put(record.ExpiryKey(next.Job, due), *next)
		}
		return u.Apply(d)
	})
}

// retire removes an expired job from all lists, unless that was done before. It returns the job, or an empty one if
// it does not expire.
func (x *expiring) retire(ctx context.Context, e record.Expiry) (job record.Job, err error) {
	err = x.txns.Transact(ctx, events.FnReconcile, x.cause+"/expire/"+e.Job, false, func(u *txn.Unit) error {
		var found bool
		job, found, err = recordcache.Get[record.Job](u, record.JobKey(e.Job))
		switch {
		case err != nil:
			return err
		case found && !job.Past.Gone.IsZero():
			return record.ErrSkip
		case !found || !job.State.Finished() || job.Past.Expires.IsZero() || u.Now.Before(job.Past.Expires):
			job = record.Job{}
			return record.ErrSkip
		}
		return remove(u, x.ports.Store, job)
	})
	return job, err
}

// isRead reports whether another job that must stay reads the outputs of this job.
func (x *expiring) isRead(ctx context.Context, job record.Job) (bool, error) {
	u := x.txns.NewUnit(ctx, events.FnReconcile)
	for _, id := range job.Past.ReadBy {
		by, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if by.Past.Gone.IsZero() {
			return true, nil
		}
		if read, err := x.isRead(ctx, by); read || err != nil {
			return read, err
		}
	}
	return false, nil
}

// markTogether is the number of records that one transaction marks or removes.
const markTogether = 50

// mark makes the store remove the records of a finished job, except the Job itself, at some time after the job
// expires.
func (x *expiring) mark(ctx context.Context, e record.Expiry) error {
	expires := store.RoundExpiry(e.RecordsExpire())
	if x.ports.Logs != nil {
		logs, err := x.logsOf(ctx, e.Job)
		if err == nil {
			err = x.ports.Logs.ExpireLogs(ctx, e.Job, logs, expires)
		}
		if err != nil {
			return err
		}
	}
	return x.rewrite(ctx, e.Job, func(r store.Record) (w store.Write, needed bool) {
		return store.Write{Op: store.Put, Key: r.Key, Expect: r.Version, Body: r.Body, Expires: expires},
			!r.Expires.Equal(expires)
	})
}

// rewrite changes or removes the records of a job, except the Job itself, as needed.
func (x *expiring) rewrite(ctx context.Context, job string, how func(store.Record) (store.Write, bool)) error {
	return eachRecord(ctx, x.ports.Store, record.JobPart(job), "", func(page []store.Record) error {
		var tx store.Tx
		size := 0
		commit := func() error {
			if len(tx.Writes) == 0 {
				return nil
			}
			if x.left -= len(tx.Writes); x.left < 0 {
				return errLater
			}
			err := x.ports.Store.Commit(ctx, tx)
			tx, size = store.Tx{}, 0
			return err
		}
		for _, r := range page {
			w, needed := how(r)
			if !needed || r.Key == record.JobKey(job) {
				continue
			}
			if bytes := len(w.Body); len(tx.Writes) == markTogether || size+bytes > store.MaxTxBytes/2 {
				if err := commit(); err != nil {
					return err
				}
			}
			tx.Writes, size = append(tx.Writes, w), size+len(w.Body)
		}
		return commit()
	})
}

// clear removes the logs, the outputs and the records of a removed job. It leaves out the records that the store
// removes by itself.
func (x *expiring) clear(ctx context.Context, job record.Job) error {
	if x.ports.Logs != nil {
		logs, err := x.logsOf(ctx, job.ID)
		if err == nil {
			err = x.ports.Logs.RemoveLogs(ctx, job.ID, logs)
		}
		if err != nil {
			return err
		}
	}
	if err := x.removeOutputs(ctx, job.ID); err != nil {
		return err
	}
	return x.rewrite(ctx, job.ID, func(r store.Record) (store.Write, bool) {
		return store.Write{Op: store.Delete, Key: r.Key, Expect: store.Any}, r.Expires.IsZero()
	})
}

// logsOf lists the logs of a job's attempts.
func (x *expiring) logsOf(ctx context.Context, job string) (logs []LogOf, err error) {
	err = eachAttempt(ctx, x.ports.Store, job, func(a apitypes.Attempt) {
		logs = append(logs, LogOf{record.ClusterID(a.Job, a.Task, a.Number), max(a.Nodes, 1)})
	})
	return logs, err
}

// expiryDue reports whether a step to remove a finished job is due.
func (b *Functions) expiryDue(ctx context.Context) (bool, error) {
	first, _, err := b.ports.Store.Query(ctx, record.PartExpiry, "", store.Page{Limit: 1})
	return len(first) > 0 && first[0].Key.Sort < record.ExpiryBound(b.txns.Now()), err
}

// Expires reports whether there is a finished job that will expire.
func (b *Functions) Expires(ctx context.Context) (bool, error) {
	first, _, err := b.ports.Store.Query(ctx, record.PartExpiry, "", store.Page{Limit: 1})
	return len(first) > 0, err
}

// removeOutputs removes the outputs and checkpoints of a job from the broker's own stores. Outputs with a URI that a
// user chose are not in these stores.
func (x *expiring) removeOutputs(ctx context.Context, job string) error {
	if x.ports.Data == nil {
		return nil
	}
	for _, url := range x.cfg.StoreURLs() {
		prefix, err := grant.Below(url, job+"/")
		if err != nil {
			return err
		}
		for {
			page, err := x.ports.Data.List(ctx, prefix, "")
			if errors.Is(err, grant.ErrNoBucket) {
				break
			}
			if err != nil {
				return err
			}
			for _, o := range page.Objects {
				if x.left--; x.left < 0 {
					return errLater
				}
				if err := x.ports.Data.Remove(ctx, o.URI); err != nil {
					return err
				}
			}
			if page.Next == "" {
				break
			}
		}
	}
	return nil
}

// readsFrom records in a job that its outputs must stay, because a rerun reads them. It fails with ErrNotFound if
// that job has been removed meanwhile.
func readsFrom(u *txn.Unit, job record.Job) error {
	if len(job.From) == 0 {
		return nil
	}
	from, err := view.LoadJob(u, job.From[len(job.From)-1])
	if err != nil || slices.Contains(from.Past.ReadBy, job.ID) {
		return err
	}
	from.Past.ReadBy = append(slices.Clone(from.Past.ReadBy), job.ID)
	var d record.Decision
	d.PutJob(from)
	return u.Apply(d)
}
