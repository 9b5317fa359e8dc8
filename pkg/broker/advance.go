package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/life"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// advance finds the tasks whose parents have all succeeded, and ends jobs. It alone writes
// Progress.
func (b *Functions) advance(u *unit.Unit, event events.Event) error {
	data := event.Data
	if err := u.Preload(record.JobKey(data.Group()), record.ProgressKey(data.Group())); err != nil {
		return err
	}
	job, found, err := book.Get[record.Job](u, record.JobKey(data.Group()))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	progress, _, err := book.Get[record.Progress](u, record.ProgressKey(job.ID))
	if err != nil {
		return err
	}
	st := life.Advancing{Job: job, Spec: spec, Progress: progress}
	switch e := data.(type) {
	case events.DAGPlanned:
		return u.Apply(life.DecideBegin(st))
	case events.DAGAdvance:
		return u.Apply(life.DecideAnnounce(st, e.From))
	case events.TaskSucceeded:
		d := life.DecideSucceeded(st, e.Task)
		if err := attempt.DecideTooLate(u, b.cfg, job, spec, &d, u.Now); err != nil {
			return err
		}
		return u.Apply(d)
	case events.TaskFailed:
		task, _, err := book.Get[record.Task](u, record.TaskKey(e.Job, e.Task))
		if err != nil {
			return err
		}
		return u.Apply(life.DecideFailed(st, task, e))
	case events.DAGCancel:
		return u.Apply(life.DecideCancelled(job, e.Reason))
	case events.DAGSettled:
		d := life.DecideFinished(job, spec, e, u.Now)
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
