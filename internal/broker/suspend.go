package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Suspend pauses a job. Its running tasks save their work and release their machines, and none of its tasks are
// admitted. Planning continues. A job that is already suspended keeps its first suspension. A request with a known
// key changes nothing. It fails with ErrNotFound and ErrFinished.
func (b *Users) Suspend(ctx context.Context, id string, s apitypes.Suspension, key string) error {
	return b.changeJob(ctx, "suspend", id, key, func(u *txn.Unit, job *record.Job) (d record.Decision) {
		s.Since = u.Now
		if job.Suspend(s) {
			d.Emit(events.DAGSuspended{Job: id, Queue: job.Queue, By: s.By, Reason: s.Reason})
		}
		return d
	})
}

// Resume resumes a suspended job. A request with a known key changes nothing. It fails with ErrNotFound and
// ErrFinished.
func (b *Users) Resume(ctx context.Context, id, by, key string) error {
	return b.changeJob(ctx, "resume", id, key, func(u *txn.Unit, job *record.Job) (d record.Decision) {
		if !job.Resume(by, u.Now) {
			return d
		}
		d.Emit(events.DAGResumed{Job: id, Queue: job.Queue, By: by})
		if job.MinPlan > job.Plan.Version {
			d.Replan(*job, "resumed")
		}
		return d
	})
}

// changeJob applies a user's change to a job that has not finished and is not ending.
func (b *Users) changeJob(ctx context.Context, what, id, key string,
	decide func(*txn.Unit, *record.Job) record.Decision) error {
	return b.commitRequest(ctx, what+"/"+id, func(u *txn.Unit) (d record.Decision, err error) {
		job, err := view.LoadJob(u, id)
		if err == nil && (job.State == apitypes.JobEnding || job.State.Finished()) {
			err = fmt.Errorf("job %s: %w", id, record.ErrFinished)
		}
		if err != nil || !record.FirstHeard(&job.Heard, key) {
			return d, err
		}
		d = decide(u, &job)
		d.PutJob(job)
		return d, nil
	})
}

// commitRequest commits a user's change.
func (b *Users) commitRequest(ctx context.Context, what string, decide func(*txn.Unit) (record.Decision, error)) error {
	cause := what + "/" + b.txns.Now().Format(time.RFC3339Nano)
	return b.txns.Transact(ctx, FnAPI, cause, false, func(u *txn.Unit) error {
		d, err := decide(u)
		if err != nil {
			return err
		}
		return u.Apply(d)
	})
}

// SuspendQueue stops a queue, and those below it, from admitting tasks. With Drain, running tasks also release their
// machines. A request with a known key changes nothing. It fails with ErrNotFound.
func (b *Users) SuspendQueue(ctx context.Context, name string, s apitypes.Suspension, key string) error {
	return b.commitRequest(ctx, "suspend-queue/"+name, func(u *txn.Unit) (record.Decision, error) {
		s.Since = u.Now
		return session.DecideSuspendQueue(u, b.cfg, name, s, key)
	})
}

// ResumeQueue makes a queue that is suspended or closed admit tasks again. A request with a known key changes
// nothing. It fails with ErrNotFound.
func (b *Users) ResumeQueue(ctx context.Context, name, by, key string) error {
	return b.commitRequest(ctx, "resume-queue/"+name, func(u *txn.Unit) (record.Decision, error) {
		return session.DecideResumeQueue(u, name, by, key)
	})
}

// suspension returns the suspension because of which a job must hold nothing now: its own, or one with Drain of a
// queue above it. It returns nil if there is none.
func suspension(u *txn.Unit, job record.Job) (*apitypes.Suspension, error) {
	if s := job.Suspended(); s != nil {
		return s, nil
	}
	queues, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	return record.DrainedBy(record.Forest(queues), job.Queue), err
}

// suspended makes the running tasks of a job release their machines. If not all tasks fit into the transaction, the
// next one continues. Machines that are not bought yet are checked when they are.
func (b *Functions) suspended(u *txn.Unit, e events.DAGSuspended) error {
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found || job.State == apitypes.JobEnding || job.State.Finished() {
		return record.OrSkip(err)
	}
	why, err := suspension(u, job)
	if err != nil || why == nil {
		return record.OrSkip(err) // resumed since
	}
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	given := 0
	for _, cl := range clusters {
		kept := cl.Kept(u.Now)
		if !kept && !attempt.Holds(cl) {
			continue
		}
		if given > 0 && !u.Room(session.GangLeaveItems) {
			return u.Emit(e)
		}
		if kept {
			if err := u.Apply(attempt.DecideReleaseKept(cl, attempt.SuspensionText(*why), u.Now)); err != nil {
				return err
			}
			given++
			continue
		}
		l, found, err := attempt.LoadLosing(u, cl.ID)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		d := attempt.DecideYield(l, record.LeaveSuspended, attempt.SuspensionText(*why), b.cfg, u.Now)
		if err := u.Apply(d); err != nil {
			return err
		}
		given++
	}
	return nil
}

// lookTogether is the number of jobs of a suspended queue that one transaction checks.
const lookTogether = 30

// queueSuspended emits DAGSuspended for each job that still holds machines in a queue that must be empty.
func (b *Functions) queueSuspended(u *txn.Unit, e events.QueueSuspended) error {
	all, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return err
	}
	queues := record.Forest(all)
	if record.DrainedBy(queues, e.Queue) == nil {
		return record.ErrSkip
	}
	page := store.Page{After: e.After, Limit: lookTogether}
	lines, more, err := b.ports.Store.Query(u.Ctx, record.PartActive, "", page)
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range lines {
		var i record.JobIndex
		if err := json.Unmarshal(r.Body, &i); err != nil || !u.Now.Before(i.RestsUntil) { // resting jobs hold nothing
			ids = append(ids, r.Key.Sort)
		}
		e.After = r.Key.Sort
	}
	jobs, err := loadWalked(u, ids...)
	if err != nil {
		return err
	}
	var d record.Decision
	for i := range jobs {
		w := &jobs[i]
		if why := record.DrainedBy(queues, w.job.Queue); why != nil && w.ledger.Outstanding > 0 {
			d.Emit(events.DAGSuspended{Job: w.job.ID, Queue: w.job.Queue, By: why.By, Reason: why.Reason})
		}
	}
	if more {
		d.Emit(e)
	}
	return u.Apply(d)
}

// recheckSuspended emits DAGSuspended again for a job that must hold nothing but does: machines that were being
// bought when it was suspended may have been missed.
func (b *Functions) recheckSuspended(u *txn.Unit, cause string, job record.Job) error {
	why, err := suspension(u, job)
	if err != nil || why == nil || job.State == apitypes.JobEnding {
		return err
	}
	return b.txns.Transact(u.Ctx, events.FnReconcile, cause+"/suspended/"+job.ID, false, func(u *txn.Unit) error {
		return u.Emit(events.DAGSuspended{Job: job.ID, Queue: job.Queue, By: why.By, Reason: why.Reason})
	})
}
