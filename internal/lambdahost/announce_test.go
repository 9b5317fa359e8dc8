package lambdahost_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

// The rules of a deployment's owner hear what is announced, also what no function reacts to.
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
