package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Notifier notifies the recipients that jobs name, and the broker's operator (implemented by notify.Notifier).
type Notifier interface {
	// Check returns an error for a notification that the broker cannot send.
	Check(*dag.Notify) error
	// Recipients returns the recipients of a job, and the operator's.
	Recipients(*dag.Notify) []notify.Recipient
}

// checkNotify refuses a job whose recipients this broker cannot notify. Otherwise, its notifications would be lost.
func (b *Users) checkNotify(spec *dag.Job) error {
	if spec.Notify.IsZero() {
		return nil
	}
	if b.ports.Notifier == nil {
		return fault.Within("notify", fault.New("this broker cannot send notifications", ""))
	}
	return b.ports.Notifier.Check(&spec.Notify)
}

// hook notifies recipients of an event. If a recipient fails, the event is delivered again, and is then sent only to
// the recipients that failed.
func (b *Functions) hook(ctx context.Context, e events.Event) error {
	var all []notify.Recipient
	if b.ports.Hook != nil {
		all = append(all, notify.Recipient{Send: b.ports.Hook.Notify})
	}
	end, ended := e.Data.(events.DAGFinished)
	if ended && b.ports.Notifier != nil {
		named, err := b.recipients(ctx, end)
		if err != nil {
			return err
		}
		if len(named) > 0 {
			return again(b.sendOnce(ctx, e, end.Job, append(all, named...)))
		}
	}
	for _, r := range all {
		if err := r.Send(ctx, e); err != nil {
			return again(err)
		}
	}
	return nil
}

func again(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: notify: %w", errAgain, err)
}

// recipients returns the recipients of a job's end. It reads the job only if the job's file names recipients.
func (b *Functions) recipients(ctx context.Context, end events.DAGFinished) ([]notify.Recipient, error) {
	if !end.Notify {
		return b.ports.Notifier.Recipients(&dag.Notify{}), nil
	}
	u := b.txns.NewUnit(ctx, events.FnHook)
	job, _, err := recordcache.Get[record.Job](u, record.JobKey(end.Job))
	if err != nil {
		return nil, err
	}
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	return b.ports.Notifier.Recipients(&spec.Notify), nil
}

// sendOnce notifies the recipients that were not notified yet, and records each result. If the process ends in
// between, the recipient gets the event again, with the same ID.
func (b *Functions) sendOnce(ctx context.Context, e events.Event, job string, all []notify.Recipient) error {
	var errs []error
	for _, r := range all {
		key := record.NotifiedKey(job, r.Name)
		u := b.txns.NewUnit(ctx, events.FnHook)
		n, found, err := recordcache.Get[record.Notified](u, key)
		if err != nil {
			return err
		}
		if found && n.Failure == "" {
			continue
		}
		err = r.Send(ctx, e)
		n.Recipient, n.At, n.Tries, n.Failure = r.Name, b.txns.Now(), n.Tries+1, ""
		if err != nil {
			n.Failure = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
		}
		errs = append(errs, b.putNotified(context.WithoutCancel(ctx), e.ID, key, n))
	}
	return errors.Join(errs...)
}

func (b *Functions) putNotified(ctx context.Context, cause string, key store.Key, n record.Notified) error {
	return b.txns.Transact(ctx, events.FnHook, cause, false, func(u *txn.Unit) error {
		var d record.Decision
		d.Put(key, n)
		return u.Apply(d)
	})
}
