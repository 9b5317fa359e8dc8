package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// countingStore is a store that counts the reads of each partition.
type countingStore struct {
	store.Store
	reads map[string]int
}

func (c *countingStore) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	c.reads[partition]++
	return c.Store.Query(ctx, partition, prefix, page)
}

func (c *countingStore) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	for _, k := range keys {
		c.reads[k.Partition]++
	}
	return c.Store.Get(ctx, keys...)
}

func TestNoPoolsMeansFewStoreReads(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := PoolBroker(func() time.Time { return now })
	c := &countingStore{Store: b.txns.Store, reads: map[string]int{}}
	b.txns.Store = c
	for range 1000 {
		if pools, _, err := b.PoolsNow(ctx, now); err != nil || len(pools) != 0 {
			t.Fatal(pools, err)
		}
	}
	if got := c.reads[record.PartPools]; got != 1 || len(c.reads) != 1 {
		t.Errorf("a thousand sessions at one moment read the store: %v", c.reads)
	}
	// A process knows within seconds a pool that another process created.
	other := PoolBroker(func() time.Time { return now })
	other.txns.Store = c.Store
	if err := other.SetPool(ctx, "lab", record.PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(b.txns.Config.Pool.Known)
	if pools, _, err := b.PoolsNow(ctx, now); err != nil || len(pools) != 1 {
		t.Errorf("%v later there are %v, %v", b.txns.Config.Pool.Known, pools, err)
	}
	// The process that created it knows it at once.
	if pools, _, err := other.PoolsNow(ctx, now); err != nil || len(pools) != 1 {
		t.Error(pools, err)
	}
}

func TestSchedulersRotateOverPartitions(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	first := PoolBroker(func() time.Time { return now })
	if err := first.SetPool(ctx, "lab", record.PoolSettings{Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	var all []*Keeper
	for i := range 4 {
		b := PoolBroker(func() time.Time { return now })
		b.txns.Store, b.txns.Config.Scheduler, b.txns.Config.Schedulers = first.txns.Store, i, 4
		all = append(all, b)
	}
	looked := make([]map[string]bool, len(all))
	for turn := range 9 {
		at := map[string]int{}
		for i, b := range all {
			c := &recordingStore{Store: first.txns.Store}
			b.txns.Store = c
			if _, _, err := b.PoolsNow(ctx, now); err != nil {
				t.Fatal(err)
			}
			if turn == 0 { // the first refresh reads everything
				looked[i] = map[string]bool{}
				continue
			}
			if len(c.prefixes) != 1 {
				t.Fatalf("in one turn scheduler %d looked at %v", i, c.prefixes)
			}
			at[c.prefixes[0]]++
			looked[i][c.prefixes[0]] = true
		}
		for prefix, n := range at {
			if n > 1 {
				t.Errorf("%d schedulers looked at partition %s in one turn", n, prefix)
			}
		}
		now = now.Add(first.txns.Config.Pool.Turn)
	}
	for i := range looked {
		if len(looked[i]) != 8 {
			t.Errorf("in eight turns scheduler %d looked at %d partitions of 8", i, len(looked[i]))
		}
	}
}

// TestChangingProcessesRotateOverPartitions: several processes share the reads of a pool's partitions. Each takes a
// number from a table, so that no two processes read the same partition in one round. The number of a process that
// has ended is used again.
func TestChangingProcessesRotateOverPartitions(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	first := PoolBroker(func() time.Time { return now })
	if err := first.SetPool(ctx, "lab", record.PoolSettings{Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	process := func(name string) *Keeper {
		b := PoolBroker(func() time.Time { return now })
		b.txns.Store, b.txns.Config.Process = first.txns.Store, name
		return b
	}
	looks := func(b *Keeper) string {
		c := &recordingStore{Store: first.txns.Store}
		b.txns.Store = c
		if _, _, err := b.PoolsNow(ctx, now); err != nil {
			t.Fatal(err)
		}
		if len(c.prefixes) != 1 {
			t.Fatalf("%s looked at %v", b.txns.Config.Process, c.prefixes)
		}
		return c.prefixes[0]
	}
	all := []*Keeper{process("a"), process("b"), process("c")}
	for i, b := range all {
		if looks(b); b.known.seat.number != i {
			t.Errorf("%s has number %d", b.txns.Config.Process, b.known.seat.number)
		}
	}
	now = now.Add(seatEvery) // after this time, all processes know their number
	for range 20 {
		now = now.Add(first.txns.Config.Pool.Turn)
		at := map[string]string{}
		for _, b := range all {
			prefix := looks(b)
			// an empty prefix means a read of the whole pool, because many views were too old
			if at[prefix] != "" && prefix != "" {
				t.Errorf("%s and %s look at partition %s in one turn", at[prefix], b.txns.Config.Process, prefix)
			}
			at[prefix] = b.txns.Config.Process
		}
	}
	for range 6 { // process b has ended
		now = now.Add(seatEvery)
		looks(all[0])
		looks(all[2])
	}
	if d := process("d"); looks(d) == "" && d.known.seat.number != 1 || d.known.seat.of != 3 {
		t.Errorf("d has number %d of %d", d.known.seat.number, d.known.seat.of)
	}
}

type recordingStore struct {
	store.Store
	prefixes []string
}

func (r *recordingStore) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	if strings.HasPrefix(partition, "pool#") {
		r.prefixes = append(r.prefixes, prefix)
	}
	return r.Store.Query(ctx, partition, prefix, page)
}

func TestPoolRejectsInvalidSettingsAndReports(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := PoolBroker(func() time.Time { return now })
	for field, set := range map[string]func() error{
		"name":       func() error { return b.SetPool(ctx, "No Name", record.PoolSettings{}) },
		"place":      func() error { return b.SetPool(ctx, "lab", record.PoolSettings{Place: "home"}) },
		"usdPerHour": func() error { return b.SetPool(ctx, "lab", record.PoolSettings{USDPerHour: -1}) },
		"partitions": func() error { return b.SetPool(ctx, "lab", record.PoolSettings{Partitions: 1000}) },
		"description": func() error {
			return b.SetPool(ctx, "lab", record.PoolSettings{Description: strings.Repeat("x", 2000)})
		},
		"how": func() error { return b.DrainMachine(ctx, "lab", "", "later") },
	} {
		if err := set(); !errors.Is(err, record.ErrPool) || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := b.SetPool(ctx, "lab", record.PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	claims := func(pool, machine string) wire.PoolClaims {
		return wire.PoolClaims{Pool: pool, Machine: machine, Joined: now}
	}
	good := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: 4, MemoryGiB: 8}}
	for field, spoil := range map[string]func(*wire.PoolReport) string{
		"machine":               func(*wire.PoolReport) string { return "m/1" },
		"type":                  func(r *wire.PoolReport) string { r.Type = "a b"; return "m1" },
		"labels":                func(r *wire.PoolReport) string { r.Labels = map[string]string{"": "x"}; return "m1" },
		"capacity.cpus":         func(r *wire.PoolReport) string { r.Capacity.CPUs = 0; return "m1" },
		"capacity.memoryGiB":    func(r *wire.PoolReport) string { r.Capacity.MemoryGiB = 1e9; return "m1" },
		"capacity.accelerators": func(r *wire.PoolReport) string { r.Capacity.Accelerators = 2; return "m1" },
	} {
		r := good
		machine := spoil(&r)
		if _, err := b.SyncMachine(ctx, claims("lab", machine), r); !errors.Is(err, record.ErrPool) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := b.SyncMachine(ctx, claims("lab", "m1"), good); err != nil {
		t.Error(err)
	}
	if err := b.SetPool(ctx, "lab", record.PoolSettings{Partitions: 4}); !errors.Is(err, record.ErrPool) {
		t.Errorf("the partitions of a pool with machines: %v", err)
	}
	if _, err := b.SyncMachine(ctx, claims("gone", "m1"), good); !errors.Is(err, record.ErrGone) {
		t.Errorf("a machine of a missing pool: %v", err)
	}
	early := claims("lab", "m2")
	early.Joined = now.Add(-time.Hour)
	if _, err := b.SyncMachine(ctx, early, good); !errors.Is(err, record.ErrGone) {
		t.Errorf("a machine of an earlier pool of the name: %v", err)
	}
}
