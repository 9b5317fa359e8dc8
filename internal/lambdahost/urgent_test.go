package lambdahost_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// teller records the events that it gets.
type teller struct {
	told []string
	err  error
}

func (p *teller) Publish(_ context.Context, messages ...bus.Message) error {
	for _, m := range messages {
		p.told = append(p.told, events.ShortName(m.Type)+" of "+m.Group)
	}
	return p.err
}

// refusing fails every commit.
type refusing struct{ store.Store }

var errRefused = errors.New("refused")

func (refusing) Commit(context.Context, store.Tx) error { return errRefused }

// The function that commits a refusal also delivers the events that follow from it. The relay delivers these and all
// other events.
func TestEventsAfterRefusalArePublishedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		data events.Data
		told string
	}{
		{"a plan went wrong", events.DAGReplan{Job: "j", Plan: 1}, "dag.replan of j"},
		{"there is another", events.DAGPlanned{Job: "j", Plan: 2}, "dag.planned of j"},
		{"a first plan", events.DAGPlanned{Job: "j", Plan: 1}, ""},
		{"what buys", events.TaskAdmitted{Job: "j", Task: 0, Attempt: 2}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, failure := range map[string]error{"told": nil, "nobody hears it": errRefused} {
				bus := &teller{err: failure}
				r := newRig(t, events.FnOptimize, func(with *setup) {
					with.Urgent = bus
					with.planner = noPlanner{}
				})
				if err := r.broker.Functions.Emit(t.Context(), "test", "e", c.data); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if want := []string{c.told}; c.told != "" && !slices.Equal(bus.told, want) ||
					c.told == "" && bus.told != nil {
					t.Errorf("%s: delivered %q, want %q", name, bus.told, c.told)
				}
				if pending, err := r.store.Outbox(t.Context(), 10); err != nil || len(pending) != 1 {
					t.Errorf("%s: the relay has %v, %v", name, pending, err)
				}
			}
		})
	}
}

func TestUncommittedEventsAreNotPublished(t *testing.T) {
	bus := &teller{}
	r := newRig(t, events.FnOptimize, func(with *setup) {
		with.Urgent, with.Store, with.planner = bus, refusing{with.Store}, noPlanner{}
	})
	err := r.broker.Functions.Emit(t.Context(), "test", "e", events.DAGReplan{Job: "j", Plan: 1})
	if !errors.Is(err, errRefused) || bus.told != nil {
		t.Errorf("%v, delivered %v", err, bus.told)
	}
}

// noPlanner is a planner that these tests never call.
type noPlanner struct{ broker.Planner }
