package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// lively is a store with frequent signs of life: of more than a number of clusters, one has always been written to
// since it was read.
type lively struct {
	store.Store
	most int
}

// Commit implements store.Store.
func (s lively) Commit(ctx context.Context, tx store.Tx) error {
	clusters := 0
	for _, w := range tx.Writes {
		if strings.HasPrefix(w.Key.Sort, record.ClusterPrefix) {
			clusters++
		}
	}
	if clusters > s.most {
		return store.ErrConflict
	}
	return s.Store.Commit(ctx, tx)
}

// TestSuspendLargeJobDespiteConcurrentReports: its running tasks release their machines in parts. A transaction over
// all of them would always conflict, and block all later events.
func TestSuspendLargeJobDespiteConcurrentReports(t *testing.T) {
	const tasks = 40
	w := newBench(t)
	id := w.wide("", tasks)
	w.deliverAll()
	for i := range tasks {
		c := wire.Claims{Job: id, Cluster: record.ClusterID(id, i, 1)}
		hello(t, w.b, c)
		w.report(c, "1", wire.Started)
	}
	w.deliverAll()
	w.now = w.now.Add(10 * time.Minute)
	ports := w.b.Ports()
	ports.Store = lively{w.store, 2}
	w.b = broker.New(config.Default(), ports)
	if err := w.b.Users.Suspend(t.Context(), id, apitypes.Suspension{By: "ada"}, "key"); err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
	told := 0
	for i := range tasks {
		c := wire.Claims{Job: id, Cluster: record.ClusterID(id, i, 1)}
		if hello(t, w.b, c).Command == wire.SaveAndStop {
			told++
		}
	}
	if told != tasks {
		t.Errorf("%d of %d tasks are commanded to save their work", told, tasks)
	}
}
