package broker

import (
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// leaveMost bounds the machines that one transaction leaves.
const leaveMost = 15

// watchJob looks at a job with the prices of now: it asks for a plan where the one in force is worse, and reprices and
// leaves its spot machines, as many at once as one transaction holds. It notes the job's queue where a task in it has
// waited for a better price and does not any more.
func (b *Broker) watchJob(
	u *unit.Unit, cause string, w *walked, changed map[string]events.MarketChange, wake map[string]bool,
) (done int, err error) {
	if w.job.State.Over() {
		return 0, nil
	}
	id := w.job.ID
	if len(changed) > 0 && w.job.State == record.JobRunning {
		done++
		if err := b.lookAtPlan(u.Ctx, cause, id, changed); err != nil {
			return done, err
		}
	}
	if awake, err := b.awake(u, w.job); err != nil {
		return done, err
	} else if awake {
		wake[w.job.Queue] = true
	}
	if w.ledger.Outstanding == 0 {
		return done, nil // it holds no machine
	}
	clusters, err := book.List[record.Cluster](u, record.JobPart(id), record.ClusterPrefix, 0)
	if err != nil {
		return done, err
	}
	clusters = slices.DeleteFunc(clusters, func(cl record.Cluster) bool { return !cl.Offer.Spot })
	for part := range slices.Chunk(clusters, leaveMost) {
		done++
		err := b.Transact(u.Ctx, events.FnTick, cause+"/spot/"+id, false, func(u *unit.Unit) error {
			return b.watch(u, part)
		})
		if err != nil {
			return done, err
		}
	}
	return done + 1, nil
}

// watch reprices and leaves some of a job's spot machines.
func (b *Broker) watch(u *unit.Unit, part []record.Cluster) error {
	keys := []store.Key{record.JobKey(part[0].Job)}
	for _, cl := range part {
		keys = append(keys, record.ClusterKey(cl.ID), record.TaskKey(cl.Job, cl.Task),
			record.AttemptKey(cl.Job, cl.Task, cl.Attempt))
	}
	if err := u.Preload(keys...); err != nil {
		return err
	}
	for _, cl := range part {
		l, found, err := attempt.LoadLosing(u, cl.ID)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		d, err := attempt.DecideWatched(u, b.Config, l, u.Now)
		if err != nil {
			return err
		}
		if err := u.Apply(d); err != nil {
			return err
		}
	}
	return nil
}

// advised reacts to a cloud's advice to leave: a machine at risk is left where its loss would leave too little time,
// with the time of another start to spare.
func (b *Broker) advised(u *unit.Unit, l attempt.Losing) error {
	d, err := attempt.DecideStay(u, b.Config, l, b.Config.Restart, u.Now)
	if err != nil {
		return err
	}
	return u.Apply(d)
}
