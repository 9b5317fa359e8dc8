package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// countingStore counts what is asked of each partition of keys.
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

func TestWithoutPoolsTheStoreIsAskedOnlyNowAndThen(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := poolBroker(func() time.Time { return now })
	c := &countingStore{Store: b.store, reads: map[string]int{}}
	b.store = c
	for range 1000 {
		if pools, _, err := b.poolsNow(ctx, now); err != nil || len(pools) != 0 {
			t.Fatal(pools, err)
		}
	}
	if got := c.reads[partPools]; got != 1 || len(c.reads) != 1 {
		t.Errorf("a thousand sessions at one moment asked the store %v", c.reads)
	}
	// Another process makes a pool: it is known within seconds.
	other := poolBroker(func() time.Time { return now })
	other.store = c.Store
	if err := other.SetPool(ctx, "lab", PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(b.cfg.Pool.Known)
	if pools, _, err := b.poolsNow(ctx, now); err != nil || len(pools) != 1 {
		t.Errorf("%v later there are %v, %v", b.cfg.Pool.Known, pools, err)
	}
	// And the one that makes it knows at once.
	if pools, _, err := other.poolsNow(ctx, now); err != nil || len(pools) != 1 {
		t.Error(pools, err)
	}
}

func TestSchedulersLookAtThePartitionsInTurns(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	first := poolBroker(func() time.Time { return now })
	if err := first.SetPool(ctx, "lab", PoolSettings{Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	var all []*Keeper
	for i := range 4 {
		b := poolBroker(func() time.Time { return now })
		b.store, b.cfg.Scheduler, b.cfg.Schedulers = first.store, i, 4
		all = append(all, b)
	}
	looked := make([]map[string]bool, len(all))
	for turn := range 9 {
		at := map[string]int{}
		for i, b := range all {
			c := &recordingStore{Store: first.store}
			b.store = c
			if _, _, err := b.poolsNow(ctx, now); err != nil {
				t.Fatal(err)
			}
			if turn == 0 { // the first look is at all of it
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
		now = now.Add(first.cfg.Pool.Turn)
	}
	for i := range looked {
		if len(looked[i]) != 8 {
			t.Errorf("in eight turns scheduler %d looked at %d partitions of 8", i, len(looked[i]))
		}
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

func TestSettingsAndReportsThatCannotBeAreRefused(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := poolBroker(func() time.Time { return now })
	for field, set := range map[string]func() error{
		"name":        func() error { return b.SetPool(ctx, "No Name", PoolSettings{}) },
		"place":       func() error { return b.SetPool(ctx, "lab", PoolSettings{Place: "home"}) },
		"usdPerHour":  func() error { return b.SetPool(ctx, "lab", PoolSettings{USDPerHour: -1}) },
		"partitions":  func() error { return b.SetPool(ctx, "lab", PoolSettings{Partitions: 1000}) },
		"description": func() error { return b.SetPool(ctx, "lab", PoolSettings{Description: strings.Repeat("x", 2000)}) },
		"how":         func() error { return b.DrainMachine(ctx, "lab", "", "later") },
	} {
		if err := set(); !errors.Is(err, ErrPool) || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := b.SetPool(ctx, "lab", PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	good := MachineReport{Joined: now, Capacity: Capacity{CPUs: 4, MemoryGiB: 8}}
	for field, spoil := range map[string]func(*MachineReport) string{
		"machine":               func(*MachineReport) string { return "m/1" },
		"type":                  func(r *MachineReport) string { r.Type = "a b"; return "m1" },
		"labels":                func(r *MachineReport) string { r.Labels = map[string]string{"": "x"}; return "m1" },
		"capacity.cpus":         func(r *MachineReport) string { r.Capacity.CPUs = 0; return "m1" },
		"capacity.memoryGiB":    func(r *MachineReport) string { r.Capacity.MemoryGiB = 1e9; return "m1" },
		"capacity.accelerators": func(r *MachineReport) string { r.Capacity.Accelerators = 2; return "m1" },
	} {
		r := good
		machine := spoil(&r)
		if _, err := b.SyncMachine(ctx, "lab", machine, r); !errors.Is(err, ErrPool) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := b.SyncMachine(ctx, "lab", "m1", good); err != nil {
		t.Error(err)
	}
	if err := b.SetPool(ctx, "lab", PoolSettings{Partitions: 4}); !errors.Is(err, ErrPool) {
		t.Errorf("the partitions of a pool with machines: %v", err)
	}
	if _, err := b.SyncMachine(ctx, "gone", "m1", good); !errors.Is(err, ErrGone) {
		t.Errorf("a machine of no pool: %v", err)
	}
	good.Joined = now.Add(-time.Hour)
	if _, err := b.SyncMachine(ctx, "lab", "m2", good); !errors.Is(err, ErrGone) {
		t.Errorf("a machine of an earlier pool of the name: %v", err)
	}
}

// TestWhatIsPlacedFits has random tasks placed on random machines that hold something already, and checks what came of it against the constraints, one
// by one.
func TestWhatIsPlacedFits(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := poolBroker(func() time.Time { return now })
	rapid.Check(t, func(t *rapid.T) {
		k := newBook(newKept(0))
		s := &scheduling{cfg: b.cfg, u: newDraft(k, now, 0)}
		p := drawPool(t, now)
		for _, part := range p.parts {
			body, _ := json.Marshal(part.Partition)
			k.seed(store.Record{Key: partitionKey("lab", part.Index), Version: 1, Body: body})
		}
		var wants []*want
		for i := range rapid.IntRange(1, 8).Draw(t, "wants") {
			wants = append(wants, drawWant(t, p, i))
		}
		placed, err := s.place(p, p.order, wants)
		if err != nil {
			t.Fatal(err)
		}
		free := map[string]Capacity{}
		machines := map[string]*PoolMachine{}
		room := map[string]int{}
		for i := range p.parts {
			for j := range p.parts[i].Machines {
				m := &p.parts[i].Machines[j]
				free[m.ID], machines[m.ID], room[m.ID] = m.free(), m, maxUses-len(m.Uses)
			}
		}
		for i, x := range placed {
			if x == nil {
				continue
			}
			if len(x.hosts) != wants[i].a.nodes || len(slices.Compact(slices.Sorted(slices.Values(x.hosts)))) != len(x.hosts) {
				t.Fatalf("%d nodes are placed on %v", wants[i].a.nodes, x.hosts)
			}
			for _, host := range x.hosts {
				m := machines[host]
				if _, may := wants[i].machines[m.class()]; !may || !m.usable(now, b.cfg.Pool, now) {
					t.Fatalf("%+v is placed on %+v, where it may not be", wants[i], m)
				}
				f := free[host]
				if !x.hold.fits(f) || room[host] == 0 {
					t.Fatalf("%s has %+v left and room for %d, and is given %+v", host, f, room[host], x.hold)
				}
				f.CPUs -= x.hold.CPUs
				f.MemoryGiB -= x.hold.MemoryGiB
				f.Accelerators -= x.hold.Accelerators
				free[host] = f
				room[host]--
			}
		}
		for i, x := range placed {
			if x != nil || wants[i].a.nodes > 1 {
				continue
			}
			for host, m := range machines {
				if _, may := wants[i].machines[m.class()]; may && m.usable(now, b.cfg.Pool, now) && room[host] > 0 && wants[i].hold.fits(free[host]) {
					t.Fatalf("%+v is not placed though %s has %+v left", wants[i].hold, host, free[host])
				}
			}
		}
	})
}

func drawPool(t *rapid.T, now time.Time) *poolSeen {
	p := &poolSeen{Pool: Pool{Name: "lab", PoolSettings: PoolSettings{Partitions: 3}}}
	p.parts = make([]partSeen, 3)
	for i := range p.parts {
		p.order = append(p.order, i)
		p.parts[i].seen = map[string]time.Time{}
		p.parts[i].Pool, p.parts[i].Index = "lab", i
	}
	for n := range rapid.IntRange(1, 7).Draw(t, "machines") {
		m := PoolMachine{ID: fmt.Sprint("m", n), Type: rapid.SampledFrom([]string{"machine", "big"}).Draw(t, "type")}
		m.Capacity = Capacity{CPUs: float64(rapid.IntRange(1, 8).Draw(t, "cpus")), MemoryGiB: float64(rapid.IntRange(1, 16).Draw(t, "memory"))}
		if rapid.Bool().Draw(t, "accelerated") {
			m.Capacity.Accelerator, m.Capacity.Accelerators = "V100", float64(rapid.IntRange(1, 4).Draw(t, "accelerators"))
		}
		m.Draining = rapid.IntRange(0, 5).Draw(t, "draining") == 0
		if rapid.Bool().Draw(t, "used") {
			m.Uses = append(m.Uses, PoolUse{Cluster: "j.0.1", Hold: Capacity{CPUs: m.Capacity.CPUs / 2, MemoryGiB: m.Capacity.MemoryGiB / 3}})
		}
		part := &p.parts[p.partitionOf(m.ID)]
		part.Machines = append(part.Machines, m)
		part.seen[m.ID] = now
	}
	for i := range p.parts {
		slices.SortFunc(p.parts[i].Machines, func(a, b PoolMachine) int { return strings.Compare(a.ID, b.ID) })
	}
	return p
}

func drawWant(t *rapid.T, p *poolSeen, i int) *want {
	w := &want{machines: map[machineClass]float64{}}
	w.a = admission{job: Job{ID: fmt.Sprint("j", i)}, nodes: 1, waiting: Waiting{Priority: rapid.IntRange(-1, 1).Draw(t, "priority")}}
	if rapid.IntRange(0, 3).Draw(t, "gang") == 0 {
		w.a.nodes = rapid.IntRange(2, 3).Draw(t, "nodes")
	}
	w.hold = Capacity{CPUs: rapid.Float64Range(0.1, 5).Draw(t, "wants cpus"), MemoryGiB: rapid.Float64Range(0, 9).Draw(t, "wants memory")}
	if rapid.IntRange(0, 2).Draw(t, "accelerates") == 0 {
		w.hold.Accelerator, w.hold.Accelerators = "V100", float64(rapid.IntRange(1, 3).Draw(t, "wants accelerators"))
	}
	kind := rapid.SampledFrom([]string{"", "big"}).Draw(t, "kind")
	for i := range p.parts {
		for _, m := range p.parts[i].Machines {
			if kind == "" || m.Type == kind {
				w.machines[m.class()] = 1
			}
		}
	}
	return w
}
