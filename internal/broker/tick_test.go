package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// cut is a store that accepts a number of transactions, as for a function that is then killed.
type cut struct {
	store.Store
	left int
}

// Commit implements store.Store.
func (s *cut) Commit(ctx context.Context, tx store.Tx) error {
	if s.left--; s.left < 0 {
		return errors.New("killed")
	}
	return s.Store.Commit(ctx, tx)
}

// TestRedeliveredTickStillReplans: a tick that was killed after writing its prices finds them written when it is
// delivered again. It still requests a new plan for what is planned on the expensive market.
func TestRedeliveredTickStillReplans(t *testing.T) {
	w := newBench(t)
	spec, err := read.Job("j.yaml", strings.NewReader(`apiVersion: tradewind/v1
name: dear
tasks:
  t: {run: x, resources: {cpus: 4}, time: 1h}
  u: {after: [t], run: x, resources: {cpus: 4}, time: 8h}
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec}); err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	var ticks []events.PriceTick
	for _, c := range w.cloud {
		for _, spec := range c.clusters {
			ticks = append(ticks, events.PriceTick{
				Offer: record.Where(spec.Offer) + "/" + spec.Offer.InstanceType, USD: 2.5 * spec.Offer.USDPerHour,
			})
		}
	}
	tick := events.New("dear", "test", w.now, events.MarketTicked{Prices: ticks})
	ports := w.b.Ports()
	ports.Store = &cut{Store: w.store, left: 1}
	first := broker.New(config.Default(), ports)
	if errs := first.Functions.Handle(t.Context(), events.FnTick, []events.Event{tick}); errs[0] == nil {
		t.Fatal("the tick was not cut short")
	}
	if n := w.deliverAll()[events.TypeDAGReplan]; n != 0 {
		t.Fatalf("%d plans were requested before it was cut short", n)
	}
	w.tell(events.FnTick, tick)
	if n := w.deliverAll()[events.TypeDAGReplan]; n != 1 {
		t.Errorf("%d plans were requested, want 1", n)
	}
	w.tell(events.FnTick, tick)
	if n := w.deliverAll()[events.TypeDAGReplan]; n != 0 {
		t.Errorf("a third delivery requested %d more plans", n)
	}
}
