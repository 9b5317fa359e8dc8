package broker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// counting is a store that counts single reads.
type counting struct {
	store.Store
	gets atomic.Int64
}

// Get implements store.Store.
func (s *counting) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, keys...)
}

func (w *bench) tick(id string, ticks ...events.PriceTick) {
	w.t.Helper()
	w.tell(events.FnTick, events.New(id, "test", w.now, events.MarketTicked{Prices: ticks}))
}

func (w *bench) tell(fn string, e events.Event) {
	w.t.Helper()
	if errs := w.b.Functions.Handle(context.Background(), fn, []events.Event{e}); errs[0] != nil {
		w.t.Fatal(errs[0])
	}
}

// pricesTimes returns the markets of the test's machine at multiples of their price.
func (w *bench) pricesTimes(times float64) (out []events.PriceTick) {
	w.t.Helper()
	c, err := catalog.Default()
	if err != nil {
		w.t.Fatal(err)
	}
	for o := range c.All() {
		if o.HasSpot && o.Region == "us-east-1" && o.InstanceType == "g5.xlarge" && o.Cloud == "aws" {
			out = append(out, events.PriceTick{Offer: o.ID(), USD: times * o.SpotUSD})
		}
	}
	return out
}

// alternatePrices makes every market expensive for one hour in four, for six days, and again since a minute ago.
func (w *bench) alternatePrices() {
	for _, m := range w.pricesTimes(1) {
		var ticks []events.PriceTick
		for at := w.now.Add(-6 * 24 * time.Hour); at.Before(w.now.Add(-2 * time.Hour)); at = at.Add(4 * time.Hour) {
			ticks = append(ticks, events.PriceTick{Offer: m.Offer, USD: 8 * m.USD, Since: at}, events.PriceTick{Offer: m.Offer, USD: m.USD, Since: at.Add(time.Hour)})
		}
		w.tick("past/"+m.Offer, ticks...)
	}
	dear := w.pricesTimes(8)
	for i := range dear {
		dear[i].Since = w.now.Add(-time.Minute)
	}
	w.tick("dear", dear...)
}

// wide submits a job of a number of tasks of an hour each.
func (w *bench) wide(head string, tasks int) string {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: tradewind/v1\nname: wide\n%stasks:\n", head)
	for i := range tasks {
		fmt.Fprintf(&b, "  t%05d: {run: x, time: 1h, checkpoint: {every: 10m, path: c}, resources: {cloud: aws, region: us-east-1, instanceType: g5.xlarge}}\n", i)
	}
	spec, err := read.Job("j.yaml", strings.NewReader(b.String()))
	if err != nil {
		w.t.Fatal(err)
	}
	j, err := w.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: "wide"})
	if err != nil {
		w.t.Fatal(err)
	}
	return j.ID
}

func (w *bench) report(c wire.Claims, id string, e wire.Event) {
	w.t.Helper()
	if err := w.b.Agents.Report(context.Background(), c, wire.Report{ID: id, Attempt: c.Cluster, Event: e}); err != nil {
		w.t.Fatal(err)
	}
}

// TestTasksInQueueWithQuotaDoNotWaitTogether: in a queue with room for one, if three tasks all waited until their
// last moment, they would then run one after another, and the last would be late.
func TestTasksInQueueWithQuotaDoNotWaitTogether(t *testing.T) {
	w := newBench(t)
	if err := w.b.Users.SetQueue(t.Context(), "default", record.QueueSettings{MaxRunning: 1}); err != nil {
		t.Fatal(err)
	}
	w.alternatePrices()
	id := w.wide("deadline: 6h\n", 3)
	w.deliverAll()
	end := w.now.Add(6 * time.Hour)
	started := map[string]time.Time{}
	for step := 0; w.now.Before(end); step++ {
		w.tick(fmt.Sprint("t", step))
		w.deliverAll()
		for _, s := range w.cloud {
			for c := range s.clusters {
				claims := wire.Claims{Job: id, Cluster: c}
				switch at, known := started[c]; {
				case !known:
					hello(t, w.b, claims)
					w.report(claims, "1", wire.Started)
					started[c] = w.now
				case w.now.Sub(at) >= time.Hour:
					w.report(claims, "2", wire.Succeeded)
				default:
					w.report(claims, "a", wire.Alive)
				}
			}
		}
		w.deliverAll()
		w.now = w.now.Add(5 * time.Minute)
	}
	d, err := w.b.Views.JobDetail(t.Context(), id)
	if err != nil || d.State != apitypes.JobSucceeded {
		t.Errorf("at its deadline the job is %s, %d tasks started: %v", d.State, len(started), err)
	}
}

// TestTickReadsMachinesInBatches: a new price of machines in use is written to each one's record, but the records are
// read in batches.
func TestTickReadsMachinesInBatches(t *testing.T) {
	const machines = 120
	w := newBench(t)
	id := w.wide("", machines)
	w.deliverAll()
	for i := range machines {
		c := wire.Claims{Job: id, Cluster: record.ClusterID(id, i, 1)}
		hello(t, w.b, c)
		w.report(c, "1", wire.Started)
	}
	w.deliverAll()
	w.now = w.now.Add(10 * time.Minute)
	count := &counting{Store: w.store}
	ports := w.b.Ports()
	ports.Store = count
	w.b = broker.New(config.Default(), ports)
	w.tick("dearer", w.pricesTimes(1.05)...)
	if n := count.gets.Load(); n > machines/2 {
		t.Errorf("%d reads for %d machines", n, machines)
	}
	d, err := w.b.Views.JobDetail(t.Context(), id)
	if err != nil || d.Attempts[machines-1].RateUSD == 0 {
		t.Errorf("the last machine's price is not known: %v", err)
	}
}
