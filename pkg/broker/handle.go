package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// ErrFinal marks an error that trying again cannot mend: the event goes to the dead letters.
var ErrFinal = errors.New("final")

// final wraps err so that its event is not tried again.
func final(err error) error { return fmt.Errorf("%w: %w", ErrFinal, err) }

// unitFull is how many items a shared transaction may hold before it is committed: what one more
// event adds still fits below store.MaxItems.
const unitFull = 55

// decided maps the events that only read and write records to their handlers. They share
// transactions.
func (b *Broker) decided(fn string) func(*unit, events.Data) error {
	switch fn {
	case events.FnAdvance:
		return b.advance
	case events.FnSchedule:
		return b.schedule
	case events.FnExecute:
		return b.execute
	case events.FnInterrupt:
		return b.interrupt
	case events.FnBid:
		return b.bid
	default:
		return nil
	}
}

// acting maps the functions that reach outside, or take long, to their handlers. They commit by themselves.
func (b *Broker) acting(fn string) func(context.Context, events.Event) error {
	switch fn {
	case events.FnSubmit:
		return b.submit
	case events.FnOptimize:
		return b.optimize
	case events.FnProvision:
		return b.provision
	case events.FnTick:
		return b.tick
	case events.FnRefresh:
		return b.refresh
	case events.FnReconcile:
		return b.reconcile
	case events.FnHook:
		return b.hook
	default:
		return nil
	}
}

// repeatable says that the records themselves tell whether an event was handled, so that it needs no marker: a task that has
// succeeded, was announced under that number, a cluster that was told to run. These are the frequent ones, and a marker is a
// write.
func repeatable(fn string, data events.Data) bool {
	switch data := data.(type) {
	case events.CapacityFreed: // its cluster's record goes with it; or it is only an invitation to look
		return data.Cluster != "" || data.Job == ""
	case events.TaskReady:
		return fn == events.FnSchedule
	case events.TaskSucceeded:
		return fn == events.FnAdvance
	case events.ClusterUp:
		return fn == events.FnExecute
	default:
		return false
	}
}

// Handle runs a function on events and returns one error for each, nil where it was handled. An error that
// is ErrFinal means that delivering the event again is pointless. Events that only change records
// share transactions, so a batch of one job or queue costs little more than one event.
func (b *Broker) Handle(ctx context.Context, fn string, batch []events.Event) []error {
	errs := make([]error, len(batch))
	if act := b.acting(fn); act != nil {
		for i, e := range batch {
			errs[i] = act(ctx, e)
		}
		return errs
	}
	decide := b.decided(fn)
	if decide == nil {
		for i := range errs {
			errs[i] = final(fmt.Errorf("broker: no function %q", fn))
		}
		return errs
	}
	for done := 0; done < len(batch); {
		n, err := b.together(ctx, fn, batch[done:], decide)
		if err != nil { // one of them is at fault: find out which
			n = 1
			errs[done] = b.single(ctx, fn, batch[done], decide)
		}
		done += n
	}
	return errs
}

// together handles as many events from the front of a batch as fit one transaction, and returns how many.
func (b *Broker) together(ctx context.Context, fn string, batch []events.Event, decide func(*unit, events.Data) error) (int, error) {
	u := b.newUnit(ctx, fn)
	keys := make([]store.Key, 0, len(batch))
	for _, e := range batch {
		if !repeatable(fn, e.Data) {
			keys = append(keys, seenKey(fn, e.ID))
		}
	}
	if err := u.preload(keys[:min(len(keys), unitFull)]...); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range batch {
		if n > 0 && u.items() >= unitFull {
			break
		}
		n++
		if !repeatable(fn, e.Data) {
			if again, err := u.markSeen(e.ID, b.cfg.SeenFor); err != nil {
				return 0, err
			} else if again {
				continue
			}
		}
		u.begin(e.ID)
		if err := decide(u, e.Data); err != nil && !errors.Is(err, errSkip) {
			return 0, err
		}
	}
	u.crowded = n > 1
	if err := u.finish(); err != nil {
		b.pools.conflicted(u)
		return 0, err
	}
	b.committed(u)
	return n, nil
}

// single handles one event in a transaction of its own, again while it conflicts.
func (b *Broker) single(ctx context.Context, fn string, e events.Event, decide func(*unit, events.Data) error) error {
	return b.transact(ctx, fn, e.ID, !repeatable(fn, e.Data), func(u *unit) error {
		err := decide(u, e.Data)
		if errors.Is(err, errSkip) {
			return nil // the marker is still worth keeping
		}
		return err
	})
}

// unexpected is the error for an event that a function has no reaction to.
func unexpected(fn string, data events.Data) error {
	return final(fmt.Errorf("broker: %s does not react to %s", fn, data.Type()))
}
