package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// BenchmarkPlace puts 500 tasks on the 1,000 machines of a pool, packed by the flow network and by a policy with every
// plugin that chooses machines.
func BenchmarkPlace(b *testing.B) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	p := &record.PoolSeen{Pool: record.Pool{Name: "lab", PoolSettings: record.PoolSettings{Partitions: 8}}}
	p.Parts = make([]record.PartSeen, 8)
	for i := range p.Parts {
		p.Order, p.Parts[i].Seen, p.Parts[i].Index = append(p.Order, i), map[string]time.Time{}, i
	}
	for n := range 1000 {
		m := record.PoolMachine{ID: fmt.Sprint("m", n), Type: "machine",
			Labels:   map[string]string{"rack": fmt.Sprint("r", n/40), "zone": fmt.Sprint("z", n/200)},
			Capacity: apitypes.Capacity{CPUs: 16, MemoryGiB: 64}}
		if n%20 == 0 {
			m.Labels[record.LabelWindow] = "day"
		}
		part := &p.Parts[p.PartitionOf(m.ID)]
		part.Machines, part.Seen[m.ID] = append(part.Machines, m), now
	}
	k := recordcache.New(recordcache.NewKept(1 << 24))
	for _, part := range p.Parts {
		slices.SortFunc(part.Machines, func(a, b record.PoolMachine) int { return strings.Compare(a.ID, b.ID) })
		body, _ := json.Marshal(part.Partition)
		k.Seed(store.Record{Key: record.PartitionKey("lab", part.Index), Version: 1, Body: body})
	}
	every := OwnPolicy()
	day := scheduler.Window{From: 8 * time.Hour, To: 20 * time.Hour, Zone: time.UTC}
	every.Tiers[1] = append(every.Tiers[1], []scheduler.PluginConfig{
		{Name: "nodeorder"}, {Name: "binpack"}, {Name: topology},
		{Name: tdm, Args: scheduler.Args{"windows": map[string]scheduler.Window{"day": day}}},
	}...)
	for name, policy := range map[string]*scheduler.Policy{"packed": OwnPolicy(), "every-plugin": every} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := &Session{Input: Input{Config: record.DefaultConfig(), Policy: policy}, u: recordcache.NewDraft(k, now, 0)}
				var wants []*want
				for i := range 500 {
					w := &want{hold: apitypes.Capacity{CPUs: float64(1 + i%4), MemoryGiB: float64(1 + i%7)},
						machines: map[record.MachineClass]float64{p.Parts[0].Machines[0].Class(): 1}}
					w.a = &admission{side: &side{job: record.Job{ID: fmt.Sprint("j", i)}}, nodes: 1 + i%3/2}
					wants = append(wants, w)
				}
				if err := s.place(p, p.Order, wants); err != nil {
					b.Fatal(err)
				}
				if slices.ContainsFunc(wants, func(w *want) bool { return w.a.pool == nil }) {
					b.Fatal("there is room for all")
				}
			}
		})
	}
}
