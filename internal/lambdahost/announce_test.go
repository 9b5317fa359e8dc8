package lambdahost_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

// Rules that the owner of a deployment adds receive all announced events, also those to which no function reacts.
func TestAnnouncedEventsAreKeptForRelay(t *testing.T) {
	for want, announce := range map[int][]string{0: nil, 1: {events.TypeTaskStarted}} {
		r := newRig(t, events.FnOptimize, func(with *setup) {
			with.announce, with.planner = announce, noPlanner{}
		})
		err := r.broker.Functions.Emit(t.Context(), "test", "e", events.TaskStarted{Job: "j"})
		if err != nil {
			t.Fatal(err)
		}
		if pending, err := r.store.Outbox(t.Context(), 10); err != nil || len(pending) != want {
			t.Errorf("announced %v: the relay has %v, %v", announce, pending, err)
		}
	}
}
