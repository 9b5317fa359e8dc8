package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Suspend has a job wait: what runs of it saves its work and gives back its machines, and nothing of it is admitted.
// Planning goes on. A job that is suspended already stays so, by whom it was. A request whose key was heard before
// changes nothing. It fails with ErrNotFound and ErrOver.
func (b *Users) Suspend(ctx context.Context, id string, s apitypes.Suspension, key string) error {
	return b.changeJob(ctx, "suspend", id, key, func(u *unit.Unit, job *record.Job) (d record.Decision) {
		s.Since = u.Now
		if job.Suspend(s) {
			d.Emit(events.DAGSuspended{Job: id, Queue: job.Queue, By: s.By, Reason: s.Reason})
		}
		return d
	})
}

// Resume has a job that is suspended go on. A request whose key was heard before changes nothing. It fails with
// ErrNotFound and ErrOver.
func (b *Users) Resume(ctx context.Context, id, by, key string) error {
	return b.changeJob(ctx, "resume", id, key, func(u *unit.Unit, job *record.Job) (d record.Decision) {
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

// changeJob changes a job that is not over, nor about to be, by what a user wants.
func (b *Users) changeJob(ctx context.Context, what, id, key string,
	decide func(*unit.Unit, *record.Job) record.Decision) error {
	return b.asked(ctx, what+"/"+id, func(u *unit.Unit) (d record.Decision, err error) {
		job, err := view.LoadJob(u, id)
		if err == nil && (job.State == apitypes.JobEnding || job.State.Over()) {
			err = fmt.Errorf("job %s: %w", id, record.ErrOver)
		}
		if err != nil || !record.FirstHeard(&job.Heard, key) {
			return d, err
		}
		d = decide(u, &job)
		d.PutJob(job)
		return d, nil
	})
}

// asked commits what a user wants.
func (b *Users) asked(ctx context.Context, what string, decide func(*unit.Unit) (record.Decision, error)) error {
	cause := what + "/" + b.txns.Now().Format(time.RFC3339Nano)
	return b.txns.Transact(ctx, FnAPI, cause, false, func(u *unit.Unit) error {
		d, err := decide(u)
		if err != nil {
			return err
		}
		return u.Apply(d)
	})
}

// SuspendQueue has a queue, with those below it, admit nothing, and what runs there give back its machines if Drain
// says so. A request whose key was heard before changes nothing. It fails with ErrNotFound.
func (b *Users) SuspendQueue(ctx context.Context, name string, s apitypes.Suspension, key string) error {
	return b.asked(ctx, "suspend-queue/"+name, func(u *unit.Unit) (record.Decision, error) {
		s.Since = u.Now
		return session.DecideSuspendQueue(u, b.cfg, name, s, key)
	})
}

// ResumeQueue has a queue that is suspended, or closed, admit again. A request whose key was heard before changes
// nothing. It fails with ErrNotFound.
func (b *Users) ResumeQueue(ctx context.Context, name, by, key string) error {
	return b.asked(ctx, "resume-queue/"+name, func(u *unit.Unit) (record.Decision, error) {
		return session.DecideResumeQueue(u, name, by, key)
	})
}

// suspension is why a job has to hold nothing now: it is suspended, or a queue that it is in and that is to be empty;
// nil where nothing says so.
func suspension(u *unit.Unit, job record.Job) (*apitypes.Suspension, error) {
	if s := job.Suspended(); s != nil {
		return s, nil
	}
	queues, err := book.List[apitypes.Queue](u, record.PartQueues, "", 0)
	return record.DrainedBy(record.Forest(queues), job.Queue), err
}

// suspended has what runs of a job give back what it holds. What the transaction has no room for is left to a next
// one; what is not bought yet is looked at when it is.
func (b *Functions) suspended(u *unit.Unit, e events.DAGSuspended) error {
	job, found, err := book.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found || job.State == apitypes.JobEnding || job.State.Over() {
		return record.OrSkip(err)
	}
	why, err := suspension(u, job)
	if err != nil || why == nil {
		return record.OrSkip(err) // resumed since
	}
	clusters, err := book.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	given := 0
	for _, cl := range clusters {
		kept := cl.Kept(u.Now)
		if !kept && !attempt.Keeps(cl) {
			continue
		}
		if given > 0 && !u.Room(session.GangLeaveItems) {
			return u.Emit(e)
		}
		if kept {
			if err := u.Apply(attempt.DecideLetGo(cl, attempt.Why(*why), u.Now)); err != nil {
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
		d := attempt.DecideGiveBack(l, record.LeaveSuspended, attempt.Why(*why), b.cfg, u.Now)
		if err := u.Apply(d); err != nil {
			return err
		}
		given++
	}
	return nil
}

// lookTogether is how many jobs are looked at in one transaction for those of a suspended queue.
const lookTogether = 30

// queueSuspended tells what holds anything in a queue that is to be empty.
func (b *Functions) queueSuspended(u *unit.Unit, e events.QueueSuspended) error {
	all, err := book.List[apitypes.Queue](u, record.PartQueues, "", 0)
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
		if err := json.Unmarshal(r.Body, &i); err != nil || !u.Now.Before(i.RestsUntil) { // what rests holds nothing
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

// lookSuspended tells of a job that is to hold nothing and does: what was bought when it was suspended may have been
// missed.
func (b *Functions) lookSuspended(u *unit.Unit, cause string, job record.Job) error {
	why, err := suspension(u, job)
	if err != nil || why == nil || job.State == apitypes.JobEnding {
		return err
	}
	return b.txns.Transact(u.Ctx, events.FnReconcile, cause+"/suspended/"+job.ID, false, func(u *unit.Unit) error {
		return u.Emit(events.DAGSuspended{Job: job.ID, Queue: job.Queue, By: why.By, Reason: why.Reason})
	})
}
