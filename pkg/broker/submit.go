package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// DefaultQueueName is the queue of jobs that name none.
const DefaultQueueName = "default"

// Submission is a job on its way in.
type Submission struct {
	Spec *dag.Job
	// Token makes the submission idempotent: the same token is the same job. Empty is taken from the time.
	Token string
	// Source says where it came from, for people.
	Source string
}

// Submit stores a job and tells that it is there. Submitting the same token again returns the first job.
func (b *Broker) Submit(ctx context.Context, s Submission) (Job, error) {
	if s.Spec == nil || len(s.Spec.Tasks) == 0 {
		return Job{}, errors.New("broker: a job without tasks")
	}
	token := s.Token
	if token == "" {
		token = b.now().Format(time.RFC3339Nano)
	}
	digest := shortHash(s.Spec.Name, token)
	job, err := b.submitAs(ctx, slug(s.Spec.Name)+"-"+digest[:idDigits], digest, s)
	if err == nil && job.Digest != digest {
		// Another job of that name has the short ID already.
		job, err = b.submitAs(ctx, slug(s.Spec.Name)+"-"+digest, digest, s)
	}
	return job, err
}

// idDigits is how much of a job's digest its ID shows people.
const idDigits = 6

// submitAs stores a job under an ID, or returns the one that has it.
func (b *Broker) submitAs(ctx context.Context, id, digest string, s Submission) (Job, error) {
	var job Job
	err := b.transact(ctx, events.FnSubmit, "submit/"+id+"/"+digest, false, func(u *unit) error {
		var found bool
		var err error
		if job, found, err = get[Job](u, jobKey(id)); err != nil || found {
			return orSkip(err)
		}
		spec, err := pack(id, "spec", 1, digest, s.Spec)
		if err != nil {
			return err
		}
		if err := spec.save(ctx, b.store, u); err != nil {
			return err
		}
		job = newJob(id, digest, s, spec.Blob, u.now)
		return u.apply(decideSubmitted(job))
	})
	return job, err
}

func newJob(id, digest string, s Submission, spec Blob, now time.Time) Job {
	job := Job{
		ID: id, Digest: digest, Name: s.Spec.Name, Queue: s.Spec.Queue, Priority: s.Spec.Priority,
		Objective: s.Spec.Objective, Infeasible: s.Spec.Infeasible, State: JobPlanning,
		Submitted: now, BudgetUSD: float64(s.Spec.Budget), Tasks: len(s.Spec.Tasks), Spec: spec,
		Source: s.Source,
	}
	if job.Queue == "" {
		job.Queue = DefaultQueueName
	}
	if s.Spec.Deadline > 0 {
		job.Deadline = now.Add(s.Spec.Deadline)
	}
	return job
}

func decideSubmitted(job Job) (d Decision) {
	d.put(jobKey(job.ID), job)
	d.put(progressKey(job.ID), Progress{Phases: bytes.Repeat([]byte{PhaseWaiting}, job.Tasks)})
	d.put(indexKey(job), JobIndex{ID: job.ID, Submitted: job.Submitted})
	d.put(activeKey(job.ID), JobIndex{ID: job.ID, Submitted: job.Submitted})
	d.emit(events.DAGSubmitted{Job: job.ID, Name: job.Name, Queue: job.Queue, Tasks: job.Tasks})
	return d
}

// submit reads a DAG file that appeared in the bucket. A file that cannot be read as a job stores nothing but the
// news of it.
func (b *Broker) submit(ctx context.Context, e events.Event) error {
	data, ok := e.Data.(events.ObjectCreated)
	if !ok {
		return unexpected(events.FnSubmit, e.Data)
	}
	if b.Objects == nil {
		return final(errors.New("broker: no DAG bucket is configured"))
	}
	r, err := b.Objects.Open(ctx, data.Bucket, data.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // taken away again before it was read
	}
	if err != nil {
		return fmt.Errorf("broker: open %s: %w", data.Key, err)
	}
	spec, err := read.Job(data.Key, r)
	if cerr := r.Close(); err == nil && cerr != nil {
		return fmt.Errorf("broker: read %s: %w", data.Key, cerr)
	}
	var bad *dag.Error
	if errors.As(err, &bad) {
		return b.transact(ctx, events.FnSubmit, e.ID, true, func(u *unit) error {
			return u.emit(events.DAGRejected{Bucket: data.Bucket, Key: data.Key, Reason: bad.Error()})
		})
	}
	if err != nil {
		return err
	}
	b.Objects.Settle(data.Bucket, data.Key, spec)
	_, err = b.Submit(ctx, Submission{
		Spec: spec, Token: data.Bucket + "\x00" + data.Key + "\x00" + data.ETag, Source: data.Bucket + "/" + data.Key,
	})
	return err
}

// ErrNotFound says that a record does not exist.
var ErrNotFound = errors.New("not found")

// ErrOver says that a job is over already.
var ErrOver = errors.New("the job is over")

// Cancel asks for the end of a job.
func (b *Broker) Cancel(ctx context.Context, id, reason string) error {
	return b.transact(ctx, "api", "cancel/"+id, false, func(u *unit) error {
		job, found, err := get[Job](u, jobKey(id))
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("job %s: %w", id, ErrNotFound)
		}
		if job.State.Over() {
			return fmt.Errorf("job %s: %w", id, ErrOver)
		}
		return u.emit(events.DAGCancel{Job: id, Reason: reason})
	})
}

// Emit tells an event from outside: a cloud's notice, a schedule's tick. The ID makes it idempotent.
func (b *Broker) Emit(ctx context.Context, source, id string, data events.Data) error {
	body, err := events.New(id, source, b.now(), data).MarshalJSON()
	if err != nil {
		return err
	}
	if err := b.store.Commit(ctx, store.Tx{Events: []store.Event{{ID: id, Body: body}}}); err != nil {
		return err
	}
	if b.Committed != nil {
		b.Committed()
	}
	return nil
}
