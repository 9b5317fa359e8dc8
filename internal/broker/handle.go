package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// function describes how one of the broker's functions handles events.
type function struct {
	// decide only reads and writes records. The events of a batch share transactions.
	decide func(*Functions, *txn.Unit, events.Event) error
	// act makes external calls or takes long. It makes its own commits.
	act func(*Functions, context.Context, events.Event) error
	// repeatable reports that an event needs no marker, because the records themselves show that it was handled: the
	// task has succeeded, it was announced under that number, or the cluster was commanded to run. These events are
	// frequent, and a marker costs a write.
	repeatable func(events.Data) bool
	// parallel means that the function mostly waits for external calls, so a host handles many of its events at the
	// same time.
	parallel bool
	// urgent reports that an event cannot wait for the other events of its batch, whose transaction may conflict again
	// and again. It is handled before them, in a transaction of the urgent events.
	urgent func(events.Data) bool
}

// functions returns the broker's functions by name. Callers must not change the table.
var functions = sync.OnceValue(func() map[string]function {
	return map[string]function{
		events.FnAdvance: {decide: (*Functions).advance, repeatable: is[events.TaskSucceeded]},
		events.FnSchedule: {decide: (*Functions).schedule, repeatable: func(data events.Data) bool {
			// the event removes the cluster's record, or only requests a session of the queue
			e, freed := data.(events.CapacityFreed)
			return freed && (e.Cluster != "" || e.Job == "") || is[events.TaskReady](data) ||
				is[events.LeaseDue](data)
		}},
		events.FnExecute:   {decide: (*Functions).execute, repeatable: is[events.ClusterUp]},
		events.FnInterrupt: {decide: (*Functions).interrupt, urgent: leavesSeconds},
		events.FnBid:       {decide: (*Functions).bid},
		events.FnSubmit:    {act: (*Functions).submit},
		events.FnOptimize:  {act: (*Functions).optimize},
		events.FnProvision: {act: (*Functions).provision, parallel: true},
		events.FnTick:      {act: (*Functions).tick},
		events.FnRefresh:   {act: (*Functions).refresh},
		events.FnReconcile: {act: (*Functions).reconcile},
		events.FnHook:      {act: (*Functions).hook, parallel: true},
	}
})

func is[T events.Data](data events.Data) bool {
	_, ok := data.(T)
	return ok
}

// leavesSeconds reports whether an event is a cloud's notice of an interruption. Clouds give a task as little as 30
// seconds to save its work (Azure, Google Cloud).
func leavesSeconds(data events.Data) bool {
	e, ok := data.(events.SpotInterrupted)
	return ok && cloud.NoticeKind(e.Kind) == cloud.Interruption
}

// order returns the indexes of the events of a batch in the order in which they are handled, and the number of urgent
// ones, which are first.
func (f function) order(batch []events.Event) (order []int, urgent int) {
	order = make([]int, 0, len(batch))
	var others []int
	for i := range batch {
		if f.urgent != nil && f.urgent(batch[i].Data) {
			order = append(order, i)
		} else {
			others = append(others, i)
		}
	}
	return append(order, others...), len(order)
}

func (f function) needsNoMarker(data events.Data) bool {
	return f.repeatable != nil && f.repeatable(data)
}

// Traits describe how a host passes events to a function.
type Traits struct {
	// Acts means that each event is handled alone. Otherwise the events of a batch share transactions.
	Acts bool
	// Parallel means that the function mostly waits for external calls, so several events are handled at the same
	// time.
	Parallel bool
}

// TraitsOf returns the traits of a function.
func TraitsOf(fn string) Traits {
	f := functions()[fn]
	return Traits{Acts: f.act != nil, Parallel: f.parallel}
}

// Handle runs a function on events. It returns one error for each event, or nil for a handled one. ErrFinal means
// that it is pointless to deliver the event again. Events that only change records share transactions, so a batch of
// one job or queue costs little more than one event.
func (b *Functions) Handle(ctx context.Context, fn string, batch []events.Event) []error {
	errs := make([]error, len(batch))
	f := functions()[fn]
	if f.act != nil {
		for i, e := range batch {
			errs[i] = f.act(b, ctx, e)
		}
		return errs
	}
	if f.decide == nil {
		for i := range errs {
			errs[i] = record.Final(fmt.Errorf("broker: no function %q", fn))
		}
		return errs
	}
	order, urgent := f.order(batch)
	ordered := make([]events.Event, len(batch))
	for i, at := range order {
		ordered[i] = batch[at]
	}
	for done := 0; done < len(batch); {
		end := len(batch)
		if done < urgent {
			end = urgent
		}
		n, err := b.handleBatch(ctx, fn, ordered[done:end], f)
		if err != nil { // one of them failed: find out which
			n = 1
			errs[order[done]] = b.handleOne(ctx, fn, ordered[done], f)
		}
		done += n
	}
	return errs
}

// handleBatch handles the first events of a batch in one transaction, as many as fit. It returns their number.
func (b *Functions) handleBatch(ctx context.Context, fn string, batch []events.Event, f function) (int, error) {
	u := b.txns.NewUnit(ctx, fn)
	keys := make([]store.Key, 0, len(batch))
	for _, e := range batch {
		if !f.needsNoMarker(e.Data) {
			keys = append(keys, record.SeenKey(fn, e.ID))
		}
	}
	if err := u.Preload(keys[:min(len(keys), txn.Full)]...); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range batch {
		if n > 0 && u.Items() >= txn.Full {
			break
		}
		n++
		if !f.needsNoMarker(e.Data) {
			if again, err := u.MarkSeen(e.ID, b.cfg.SeenFor); err != nil {
				return 0, err
			} else if again {
				continue
			}
		}
		u.Begin(e.ID)
		if err := f.decide(b, u, e); err != nil && !errors.Is(err, record.ErrSkip) {
			return 0, err
		}
	}
	u.Batched = n > 1
	if err := u.Finish(); err != nil {
		b.txns.Conflicted(u)
		return 0, err
	}
	b.txns.Done(u)
	return n, nil
}

// handleOne handles one event in a transaction, and retries after conflicts.
func (b *Functions) handleOne(ctx context.Context, fn string, e events.Event, f function) error {
	return b.txns.Transact(ctx, fn, e.ID, !f.needsNoMarker(e.Data), func(u *txn.Unit) error {
		err := f.decide(b, u, e)
		if errors.Is(err, record.ErrSkip) {
			return nil // still commit the marker
		}
		return err
	})
}

// unexpected returns the error for an event to which a function does not react.
func unexpected(fn string, data events.Data) error {
	return record.Final(fmt.Errorf("broker: %s does not react to %s", fn, data.Type()))
}
