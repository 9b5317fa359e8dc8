package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestPlacementIsFeasible places random tasks on random machines that are partly in use, and checks the result against
// each constraint.
func TestPlacementIsFeasible(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	cfg := config.Default()
	rapid.Check(t, func(t *rapid.T) {
		k := recordcache.New(recordcache.NewKept(0))
		s := &Session{Input: Input{Config: cfg, Policy: drawPlugins(t)}, u: recordcache.NewDraft(k, now, 0)}
		p := drawPool(t, now)
		for _, part := range p.Parts {
			body, _ := json.Marshal(part.Partition)
			k.Seed(store.Record{Key: record.PartitionKey("lab", part.Index), Version: 1, Body: body})
		}
		var wants []*want
		for i := range rapid.IntRange(1, 8).Draw(t, "wants") {
			wants = append(wants, drawWant(t, p, i))
		}
		if err := s.place(p, p.Order, wants); err != nil {
			t.Fatal(err)
		}
		free := map[string]apitypes.Capacity{}
		machines := map[string]*record.PoolMachine{}
		room := map[string]int{}
		for i := range p.Parts {
			for j := range p.Parts[i].Machines {
				m := &p.Parts[i].Machines[j]
				free[m.ID], machines[m.ID], room[m.ID] = m.Free(), m, record.MaxUses-len(m.Uses)
			}
		}
		for i := range wants {
			x := wants[i].a.pool
			if x == nil {
				continue
			}
			if len(x.hosts) != wants[i].a.nodes || len(slices.Compact(slices.Sorted(slices.Values(x.hosts)))) != len(x.hosts) {
				t.Fatalf("%d nodes were placed on %v", wants[i].a.nodes, x.hosts)
			}
			for _, host := range x.hosts {
				m := machines[host]
				if _, may := wants[i].machines[m.Class()]; !may || !m.Usable(now, cfg.Pool, now) {
					t.Fatalf("%+v was placed on %+v, which is not allowed", wants[i], m)
				}
				f := free[host]
				if !record.Fits(x.hold, f) || room[host] == 0 {
					t.Fatalf("%s had %+v free and room for %d tasks, and was given %+v", host, f, room[host], x.hold)
				}
				f.CPUs -= x.hold.CPUs
				f.MemoryGiB -= x.hold.MemoryGiB
				f.Accelerators -= x.hold.Accelerators
				free[host] = f
				room[host]--
			}
		}
		for i := range wants {
			x := wants[i].a.pool
			if x != nil || wants[i].a.nodes > 1 {
				continue
			}
			for host, m := range machines {
				if _, may := wants[i].machines[m.Class()]; may && m.Usable(now, cfg.Pool, now) && room[host] > 0 && record.Fits(wants[i].hold, free[host]) {
					t.Fatalf("%+v was not placed although %s had %+v free", wants[i].hold, host, free[host])
				}
			}
		}
	})
}

// drawPlugins draws a policy with or without plugins that choose machines.
func drawPlugins(t *rapid.T) *scheduler.Policy {
	p := OwnPolicy()
	for _, name := range []string{"nodeorder", "binpack", "topology"} {
		if rapid.IntRange(0, 2).Draw(t, name) == 0 {
			p.Tiers[1] = append(p.Tiers[1], scheduler.PluginConfig{Name: name})
		}
	}
	return p
}

func drawPool(t *rapid.T, now time.Time) *record.PoolSeen {
	p := &record.PoolSeen{Pool: record.Pool{Name: "lab", PoolSettings: record.PoolSettings{Partitions: 3}}}
	p.Parts = make([]record.PartSeen, 3)
	for i := range p.Parts {
		p.Order = append(p.Order, i)
		p.Parts[i].Seen = map[string]time.Time{}
		p.Parts[i].Pool, p.Parts[i].Index = "lab", i
	}
	for n := range rapid.IntRange(1, 7).Draw(t, "machines") {
		m := record.PoolMachine{ID: fmt.Sprint("m", n), Type: rapid.SampledFrom([]string{"machine", "big"}).Draw(t, "type")}
		m.Capacity = apitypes.Capacity{CPUs: float64(rapid.IntRange(1, 8).Draw(t, "cpus")), MemoryGiB: float64(rapid.IntRange(1, 16).Draw(t, "memory"))}
		if rapid.Bool().Draw(t, "accelerated") {
			m.Capacity.Accelerator, m.Capacity.Accelerators = "V100", float64(rapid.IntRange(1, 4).Draw(t, "accelerators"))
		}
		if rapid.Bool().Draw(t, "racked") {
			m.Labels = map[string]string{"rack": rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rack")}
		}
		m.Draining = rapid.IntRange(0, 5).Draw(t, "draining") == 0
		if rapid.Bool().Draw(t, "used") {
			m.Uses = append(m.Uses, record.PoolUse{Cluster: "j.0.1", Hold: apitypes.Capacity{CPUs: m.Capacity.CPUs / 2, MemoryGiB: m.Capacity.MemoryGiB / 3}})
		}
		part := &p.Parts[p.PartitionOf(m.ID)]
		part.Machines = append(part.Machines, m)
		part.Seen[m.ID] = now
	}
	for i := range p.Parts {
		slices.SortFunc(p.Parts[i].Machines, func(a, b record.PoolMachine) int { return strings.Compare(a.ID, b.ID) })
	}
	return p
}

func drawWant(t *rapid.T, p *record.PoolSeen, i int) *want {
	w := &want{machines: map[record.MachineClass]float64{}}
	w.a = &admission{side: &side{job: record.Job{ID: fmt.Sprint("j", i)}}, nodes: 1, waiting: apitypes.Waiting{Priority: rapid.IntRange(-1, 1).Draw(t, "priority")}}
	if rapid.IntRange(0, 3).Draw(t, "gang") == 0 {
		w.a.nodes = rapid.IntRange(2, 3).Draw(t, "nodes")
	}
	w.hold = apitypes.Capacity{CPUs: rapid.Float64Range(0.1, 5).Draw(t, "wants cpus"), MemoryGiB: float64(rapid.IntRange(0, 9000).Draw(t, "wants memory, GiB/1000")) / 1000}
	if rapid.IntRange(0, 2).Draw(t, "accelerates") == 0 {
		w.hold.Accelerator, w.hold.Accelerators = "V100", float64(rapid.IntRange(1, 3).Draw(t, "wants accelerators"))
	}
	kind := rapid.SampledFrom([]string{"", "big"}).Draw(t, "kind")
	for i := range p.Parts {
		for _, m := range p.Parts[i].Machines {
			if kind == "" || m.Type == kind {
				w.machines[m.Class()] = 1
			}
		}
	}
	return w
}
