package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// advance announces the tasks whose parents have all succeeded, and ends jobs. Only this function writes Progress.
func (b *Functions) advance(u *txn.Unit, event events.Event) error {
	data := event.Data
	if err := u.Preload(record.JobKey(data.Group()), record.ProgressKey(data.Group())); err != nil {
		return err
	}
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(data.Group()))
	if err != nil || !found || job.State.Finished() {
		return record.OrSkip(err) // the definition of a finished job may have been removed
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(job.ID))
	if err != nil {
		return err
	}
	st := jobstate.Advancing{Job: job, Spec: spec, Progress: progress, ChunkFor: b.cfg.Chunk}
	if st.Slots, err = slotsOf(u, job, spec); err != nil {
		return err
	}
	switch e := data.(type) {
	case events.DAGPlanned:
		return u.Apply(jobstate.DecideBegin(st))
	case events.DAGAdvance:
		return u.Apply(jobstate.DecideAnnounce(st, e.From))
	case events.TaskSucceeded:
		d := jobstate.DecideSucceeded(st, e)
		if err := attempt.DecideTooLate(u, b.cfg, job, spec, &d, u.Now); err != nil {
			return err
		}
		return u.Apply(d)
	case events.TaskFailed:
		task, _, err := recordcache.Get[record.Task](u, record.TaskKey(e.Job, e.Task))
		if err != nil {
			return err
		}
		return u.Apply(jobstate.DecideFailed(st, task, e))
	case events.DAGCancel:
		return u.Apply(jobstate.DecideCancelled(job, e.Reason))
	case events.DAGSettled:
		job.Simulated = job.Simulated && b.cfg.BuysNothing // a broker that buys may have resumed it
		end, err := b.ended(u, job, spec)
		if err != nil {
			return err
		}
		d := jobstate.DecideFinished(job, spec, e, end, u.Now)
		if len(d.Writes) > 0 {
			if err := history.Add(u, job.ID, spec, &d); err != nil {
				return err
			}
		}
		return u.Apply(d)
	default:
		return unexpected(events.FnAdvance, data)
	}
}

// slotsOf returns, for each array, the number of its members that fit on the planned workers. It returns nil if the
// job has no array.
func slotsOf(u *txn.Unit, job record.Job, spec *dag.Job) ([]int, error) {
	if len(job.Arrays) == 0 || !spec.HasWorkers() || job.Plan.IsZero() {
		return nil, nil
	}
	plan, err := u.Plan(job)
	if err != nil {
		return nil, err
	}
	return plan.Slots(spec, job.Arrays), nil
}
