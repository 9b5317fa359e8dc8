package broker

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// bid reacts to changed prices. It makes new bids for the current plan, which includes the value of an hour for each
// task.
func (b *Functions) bid(u *txn.Unit, event events.Event) error {
	e, ok := event.Data.(events.PriceMoved)
	if !ok {
		return unexpected(events.FnBid, event.Data)
	}
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(e.Job))
	if err != nil || !found {
		return record.OrSkip(err)
	}
	if job.State != apitypes.JobRunning || job.Plan.Version != e.Plan {
		return nil // the job has finished, or a newer plan with its own bids is the current one
	}
	in := bid.Input{Job: job, Restart: b.cfg.Restart, Tick: b.cfg.TickEvery, Now: u.Now}
	if in.Spec, err = u.Spec(job); err != nil {
		return err
	}
	if in.Plan, err = u.Plan(job); err != nil {
		return err
	}
	keys := make([]store.Key, len(in.Plan.Offers))
	for i := range keys {
		keys[i] = record.MarketKey(record.MarketID(in.Plan.Offers[i].ID))
	}
	if err := u.Preload(keys...); err != nil {
		return err
	}
	in.Markets = make([]record.MarketRecord, len(keys))
	for i, key := range keys {
		if in.Markets[i], _, err = recordcache.Get[record.MarketRecord](u, key); err != nil {
			return err
		}
	}
	if in.Tasks, _, err = attempt.TasksNow(u, job.ID); err != nil {
		return err
	}
	bids, err := bid.Decide(u.Ctx, in)
	if err != nil {
		return err
	}
	if err := b.keepBids(u, &job, bids); err != nil {
		return err
	}
	var d record.Decision
	d.PutJob(job)
	return u.Apply(d)
}
