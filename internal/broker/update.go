package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Request is an update of a job's services.
type Request struct {
	Job  string
	Spec *dag.Job
	Key  string // requests with the same key are the same update; an empty key is always a new update
	// Seal encrypts the values of the update's secrets; nil if it has none.
	Seal func(context.Context) ([]byte, error)
}

// Update replaces the replicas of a job's services, one after the other. It fails with ErrNotFound, ErrFinished, and
// with a *dag.Error for a spec that cannot replace the running one.
func Update(ctx context.Context, l *txn.Transactor, w Request) (job record.Job, err error) {
	digest := record.ShortHash(w.Job, w.Key, l.Now().String())
	err = l.Transact(ctx, events.FnSubmit, "update/"+w.Job+"/"+digest, false, func(u *txn.Unit) error {
		if job, err = view.LoadJob(u, w.Job); err != nil {
			return err
		}
		if job.State == apitypes.JobEnding || job.State.Finished() {
			return fmt.Errorf("job %s: %w", w.Job, record.ErrFinished)
		}
		if !record.FirstHeard(&job.Heard, w.Key) {
			return record.ErrSkip
		}
		old, err := u.Spec(job)
		if err != nil {
			return err
		}
		if err := w.Spec.CheckUpdate(old); err != nil {
			return err
		}
		spec := history.KeepLearned(w.Spec, old)
		p, err := txn.Pack(job.ID, "spec", job.NextSpec(), digest, spec)
		if err == nil {
			err = p.Save(ctx, l.Store, u)
		}
		if err != nil {
			return err
		}
		known := job.SecretsKeys()
		job.Updated(p.Blob, u.Now)
		var d record.Decision
		d.PutJob(job)
		for _, key := range known {
			if !slices.Contains(job.SecretsKeys(), key) { // of a version that is never used again
				d.Del(key)
			}
		}
		if w.Seal != nil {
			sealed, err := w.Seal(ctx)
			if err != nil {
				return err
			}
			d.Put(record.SecretsKey(job.ID, job.Spec.Version), record.Secrets{Sealed: sealed})
		}
		r, err := attempt.LoadRolling(u, job, spec)
		if err != nil {
			return err
		}
		d.Replan(job, fmt.Sprintf("updated to version %d", job.Spec.Version))
		d.Add(r.Step(u.Now))
		return u.Apply(d)
	})
	return job, err
}

// Continue takes the next step of an open update, if it is due: the event that should have caused it may have found the
// job suspended, or waiting for a plan.
func Continue(ctx context.Context, l *txn.Transactor, cause string, job record.Job) error {
	if !job.Update.Open() {
		return nil
	}
	return l.Transact(ctx, events.FnReconcile, cause+"/"+job.ID+"/update", false, func(u *txn.Unit) error {
		job, err := view.LoadJob(u, job.ID)
		if err != nil {
			return err
		}
		spec, err := u.Spec(job)
		if err != nil {
			return err
		}
		r, err := attempt.LoadRolling(u, job, spec)
		if err != nil {
			return err
		}
		return u.Apply(r.Step(u.Now))
	})
}
