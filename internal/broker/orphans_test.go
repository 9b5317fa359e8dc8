package broker_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// asked is a store that records the keys of single reads, and calls pass before each page of the pass over the jobs.
type asked struct {
	store.Store
	keys []store.Key
	pass func()
}

func (s *asked) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	if partition == record.PartActive {
		s.pass()
	}
	return s.Store.Query(ctx, partition, prefix, page)
}

func (s *asked) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	s.keys = append(s.keys, keys...)
	return s.Store.Get(ctx, keys...)
}

// A cloud lists machines without a record. Reconcile must terminate them before its pass over the jobs, which may not
// end in its time, and read each listed cluster's record once for that.
func TestReconcileTerminatesMachinesWithoutRecord(t *testing.T) {
	p := newAgentBench(t, "{a: {run: x}, b: {run: x}}", nil)
	var at *fakeCloud
	for _, c := range p.cloud {
		if len(c.clusters) > 0 {
			at = c
		}
	}
	ghost := record.ClusterID("ghost-abcdef", 0, 1)
	at.clusters[ghost] = cloud.LaunchSpec{Cluster: ghost, Nodes: 1}
	ports := p.b.Ports()
	look := &asked{Store: p.store, pass: func() {
		if _, there := at.clusters[ghost]; there {
			t.Error("the pass over the jobs begins while the machines without a record run")
		}
	}}
	ports.Store = look
	b := broker.New(config.Default(), ports)
	if errs := b.Functions.Handle(t.Context(), events.FnReconcile, []events.Event{events.New("1", "test", p.now, events.BrokerReconcile{})}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	live := 0
	for _, c := range p.cloud {
		live += len(c.clusters)
	}
	if _, there := at.clusters[ghost]; there || live != 2 {
		t.Errorf("%d clusters live; the one without a record lives: %v", live, there)
	}
	clusters := slices.DeleteFunc(look.keys, func(k store.Key) bool { return !strings.HasPrefix(k.Sort, "cluster#") })
	if len(clusters) != 3 {
		t.Errorf("in addition to its pass over the jobs it reads %v", clusters)
	}
}
