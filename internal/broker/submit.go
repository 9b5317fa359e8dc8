package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Submission is a job that is being submitted.
type Submission struct {
	Spec *dag.Job
	// Secrets are values of secrets by name, or references to the places where they are stored. They override those
	// of the spec.
	Secrets dag.SecretValues
	// Token makes the submission idempotent: the same token returns the same job. If empty, the time is used.
	Token string
	// Source is a text for users about where the job came from.
	Source string
	// Updates is the job whose services this submission replaces. If it is empty, this is a new job.
	Updates string

	done []record.Task // tasks that another job has done
	from []string      // the jobs that may have done them
}

// Submit stores a job and announces it. Submitting the same token again returns the first job. It fails with a
// *dag.Error for a job whose code or files no machine could get.
func (b *Users) Submit(ctx context.Context, s Submission) (record.Job, error) {
	if s.Spec == nil || len(s.Spec.Tasks) == 0 {
		return record.Job{}, errors.New("broker: a job without tasks")
	}
	if err := s.Spec.CheckValues(); err != nil {
		return record.Job{}, err
	}
	if s.Spec.Announce != "" && !b.ports.Announces {
		e := s.Spec.ErrorAt(-1, dag.FilesOfTask, "", "this broker has no Google Cloud account to publish with",
			"run tradewind cloud add gcp --project PROJECT; on AWS, deploy with --cloud gcp:…,announce=true")
		e.Field = "announce"
		return record.Job{}, e
	}
	if err := b.checkNotify(s.Spec); err != nil {
		return record.Job{}, err
	}
	if err := b.checkQueue(ctx, s.Spec); err != nil {
		return record.Job{}, err
	}
	if err := b.checkCode(ctx, s.Spec); err != nil {
		return record.Job{}, err
	}
	check := inputs.Checker{
		Stores: b.ports.Data, AtOnce: b.ports.AtOnce, Local: b.ports.Here, Own: b.cfg.StoreURL, For: b.cfg.GrantFor,
		Log: b.log,
	}
	if err := check.Check(ctx, s.Spec); err != nil {
		return record.Job{}, err
	}
	secrets, _, err := s.Spec.ResolveSecrets(s.Secrets)
	if err != nil {
		return record.Job{}, err
	}
	s.Secrets = secrets
	if s.Updates != "" {
		return b.update(ctx, s)
	}
	digest := record.ShortHash(s.Spec.Name, cmp.Or(s.Token, b.txns.Now().Format(time.RFC3339Nano)))
	job, err := b.submitAs(ctx, record.Slug(s.Spec.Name)+"-"+digest[:idDigits], digest, s)
	if err == nil && job.Digest != digest {
		// Another job of that name already has the short ID.
		job, err = b.submitAs(ctx, record.Slug(s.Spec.Name)+"-"+digest, digest, s)
	}
	return job, err
}

// update replaces the services of a job.
func (b *Users) update(ctx context.Context, s Submission) (record.Job, error) {
	w := Request{Job: s.Updates, Spec: s.Spec, Key: s.Token}
	if len(s.Secrets) > 0 {
		w.Seal = func(ctx context.Context) ([]byte, error) { return b.seal(ctx, s.Updates, s.Spec, s.Secrets) }
	}
	return Update(ctx, b.txns, w)
}

// idDigits is the number of digits of a job's digest in its ID.
const idDigits = 6

// submitAs stores a job under an ID. If a job with that ID exists, it returns that job.
func (b *Users) submitAs(ctx context.Context, id, digest string, s Submission) (record.Job, error) {
	var job record.Job
	if err := b.takeOver(ctx, id, s.done); err != nil {
		return job, err
	}
	err := b.txns.Transact(ctx, events.FnSubmit, "submit/"+id+"/"+digest, false, func(u *txn.Unit) error {
		var found bool
		var err error
		if job, found, err = recordcache.Get[record.Job](u, record.JobKey(id)); err != nil || found {
			return record.OrSkip(err)
		}
		filled, err := history.LoadAndFill(u, s.Spec)
		if err != nil {
			return err
		}
		filled = filled.WithWorkers()
		spec, err := txn.Pack(id, "spec", 1, digest, filled)
		if err != nil {
			return err
		}
		if err := spec.Save(ctx, b.ports.Store, u); err != nil {
			return err
		}
		job = newJob(id, digest, s, spec.Blob, u.Now)
		if job.Simulated, err = b.simulates(u); err != nil {
			return err
		}
		if job.Simulated {
			job.TimeScale = b.cfg.Scale
		}
		sealed, err := b.seal(ctx, id, s.Spec, s.Secrets)
		if err != nil {
			return err
		}
		if err := readsFrom(u, job); err != nil {
			return err
		}
		d := decideSubmitted(job, sealed, s.done)
		if filled.HasWorkers() {
			d.Put(record.PoolKey(record.JobPool(id)), record.NewJobPool(id, u.Now))
		}
		return u.Apply(d)
	})
	return job, err
}

// simulates reports whether all machines are simulated. Machines of a pool are not.
func (b *Users) simulates(u *txn.Unit) (bool, error) {
	if !b.cfg.BuysNothing {
		return false, nil
	}
	pools, err := recordcache.List[record.Pool](u, record.PartPools, "", 1)
	return len(pools) == 0, err
}

func newJob(id, digest string, s Submission, spec record.Blob, now time.Time) record.Job {
	job := record.Job{
		ID: id, Digest: digest, Name: s.Spec.Name, Queue: cmp.Or(s.Spec.Queue, record.DefaultQueueName),
		Namespace: s.Spec.Namespace, Priority: s.Spec.Priority, Objective: s.Spec.Objective,
		Infeasible: cmp.Or(s.Spec.Infeasible, dag.Retry), Patience: s.Spec.Patience,
		State: apitypes.JobPlanning, Submitted: now, BudgetUSD: float64(s.Spec.Budget), Tasks: len(s.Spec.Tasks),
		Spec: spec, Source: s.Source, Serves: s.Spec.HasServices(), Arrays: record.ArraysOf(s.Spec),
		OnFailure: s.Spec.OnFailure, From: s.from,
	}
	if s.Spec.HasSpark() {
		job.Format = record.SparkFormat
	}
	if s.Spec.Deadline > 0 {
		job.Deadline = now.Add(s.Spec.Deadline)
	}
	return job
}

func decideSubmitted(job record.Job, secrets []byte, done []record.Task) (d record.Decision) {
	d.PutJob(job)
	if secrets != nil {
		d.Put(record.SecretsKey(job.ID, job.Spec.Version), record.Secrets{Sealed: secrets})
	}
	d.Put(record.ProgressKey(job.ID), progressOf(job, done).Packed())
	d.Put(record.IndexKey(job), record.JobIndex{ID: job.ID, Submitted: job.Submitted})
	d.Put(record.ActiveKey(job.ID), record.JobIndex{ID: job.ID, Submitted: job.Submitted})
	d.Emit(events.DAGSubmitted{Job: job.ID, Name: job.Name, Queue: job.Queue, Tasks: job.Tasks})
	return d
}

// submit reads a DAG file that appeared in the bucket. If the file is not a valid job, it only emits DAGRejected.
func (b *Functions) submit(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.ObjectCreated)
	if !ok {
		return unexpected(events.FnSubmit, e.Data)
	}
	if b.ports.Objects == nil {
		return record.Final(errors.New("broker: no DAG bucket is configured"))
	}
	var bad *dag.Error
	var spec *dag.Job
	r, tag, err := b.ports.Objects.Open(ctx, data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the file was removed before it was read
	case err == nil:
		spec, err = read.JobContext(ctx, data.Key, r)
		if cerr := r.Close(); err == nil && cerr != nil {
			return fmt.Errorf("broker: read %s: %w", data.Key, cerr)
		}
	case !errors.As(err, &bad):
		return fmt.Errorf("broker: open %s: %w", data.Key, err)
	}
	switch rest := dag.RestOf(err); {
	case err == nil:
		err = b.ports.Objects.Settle(ctx, data.Bucket, data.Key, spec)
	case rest != nil: // for errors about files, which the reader cannot detect
		if other := b.ports.Objects.Settle(ctx, data.Bucket, data.Key, rest); errors.As(other, &bad) {
			var all fault.Faults
			err = all.With(err, bad)
		}
	}
	if err == nil {
		_, err = b.users.Submit(ctx, Submission{
			Spec: spec, Token: data.Bucket + "\x00" + data.Key + "\x00" + cmp.Or(tag, data.ETag),
			Source: data.Bucket + "/" + data.Key,
		})
	}
	if errors.As(err, &bad) {
		return b.txns.Transact(ctx, events.FnSubmit, e.ID, true, func(u *txn.Unit) error {
			return u.Emit(events.DAGRejected{
				Bucket: data.Bucket, Key: data.Key, Reason: readable.ClipFailure(bad.Error()),
			})
		})
	}
	if err == nil && b.ports.Accepted != nil {
		b.ports.Accepted(ctx, data)
	}
	return err
}

// Cancel requests the cancellation of a job.
func (b *Users) Cancel(ctx context.Context, id, reason string) error {
	return b.txns.Transact(ctx, "api", "cancel/"+id, false, func(u *txn.Unit) error {
		job, err := view.LoadJob(u, id)
		if err != nil {
			return err
		}
		if job.State.Finished() {
			return fmt.Errorf("job %s: %w", id, record.ErrFinished)
		}
		return u.Emit(events.DAGCancel{Job: id, Reason: reason})
	})
}

// Emit emits an event from outside of the broker: a cloud's notice, or the tick of a schedule. The ID makes it
// idempotent.
func (b *Functions) Emit(ctx context.Context, source, id string, data events.Data) error {
	body, err := events.New(id, source, b.txns.Now(), data).MarshalJSON()
	if err != nil {
		return err
	}
	emitted := []store.Event{{ID: id, Body: body}}
	if err := b.ports.Store.Commit(ctx, store.Tx{Events: emitted}); err != nil {
		return err
	}
	if b.ports.Committed != nil {
		b.ports.Committed(ctx, emitted)
	}
	return nil
}
