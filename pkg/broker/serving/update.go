// Package serving changes services while they run.
package serving

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Wanted is what the services of a job are to be from now on.
type Wanted struct {
	Job  string
	Spec *dag.Job
	Key  string // the same key is the same update, however often it is asked for; empty is always another one
	// Seal seals the values of its secrets; nil is for one that has none.
	Seal func(context.Context) ([]byte, error)
}

// Update has the replicas of a job's services be replaced, one after the other, by what they are to be. It fails with
// ErrNotFound, with ErrOver, and with a *dag.Error for what cannot take the place of what runs.
func Update(ctx context.Context, l *unit.Transactor, w Wanted) (job record.Job, err error) {
	digest := record.ShortHash(w.Job, w.Key, l.Now().String())
	err = l.Transact(ctx, events.FnSubmit, "update/"+w.Job+"/"+digest, false, func(u *unit.Unit) error {
		if job, err = view.LoadJob(u, w.Job); err != nil {
			return err
		}
		if job.State == apitypes.JobEnding || job.State.Over() {
			return fmt.Errorf("job %s: %w", w.Job, record.ErrOver)
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
		spec := history.Kept(w.Spec, old)
		p, err := unit.Pack(job.ID, "spec", job.NextSpec(), digest, spec)
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
			if !slices.Contains(job.SecretsKeys(), key) { // of a version that nothing goes back to
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

// GoOn takes the next step of an update that is open, if it is time for one: the event that it came with may have met a
// job that was suspended, or that waited for a plan.
func GoOn(ctx context.Context, l *unit.Transactor, cause string, job record.Job) error {
	if !job.Update.Open() {
		return nil
	}
	return l.Transact(ctx, events.FnReconcile, cause+"/"+job.ID+"/update", false, func(u *unit.Unit) error {
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
