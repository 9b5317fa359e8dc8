package session

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// packing is a problem of pkg/placement that is made of tasks and of what machines of some partitions have left.
type packing struct {
	p        placement.Problem
	machines []*record.PoolMachine
	classes  []record.MachineClass
	first    []int32 // by want: its first instance; those of a gang follow one another
}

// place places tasks on machines of some partitions of a pool, each that it can, the most urgent first, by index; nil
// where there is no room. The partitions that are taken from are in the unit then, as they were seen.
func (s *Session) place(p *record.PoolSeen, parts []int, wants []*want) ([]*pooled, error) {
	out := make([]*pooled, len(wants))
	k, err := s.packing(p, parts, wants)
	if err != nil || len(k.machines) == 0 {
		return out, err
	}
	network, err := placement.New(&k.p, placement.Options{Exact: -1})
	if err != nil {
		return nil, record.Final(fmt.Errorf("broker: pool %s: %w", p.Name, err))
	}
	at := network.Solve().Assignment
	for i := k.broken(wants, at); i >= 0; i = k.broken(wants, at) {
		for n := range int32(wants[i].a.nodes) { //nolint:gosec // few
			if err := network.RemoveInstance(k.first[i] + n); err != nil {
				return nil, record.Final(err)
			}
		}
		at = network.Solve().Assignment
	}
	for i, w := range wants {
		if hosts := k.hosts(w, i, at); hosts[0] != placement.Unplaced {
			out[i] = k.pooled(p, w, hosts)
		}
	}
	return out, nil
}

// packing lays out the problem. Resources are vCPUs, memory, what may run beside each other, each accelerator by name,
// and for each class of machines one that its machines have none of: who may not go there asks for some of it.
func (s *Session) packing(p *record.PoolSeen, parts []int, wants []*want) (*packing, error) {
	k := &packing{}
	for _, i := range parts {
		part, err := s.partition(p, i)
		if err != nil {
			return nil, err
		}
		for j := range part.Machines {
			m := &part.Machines[j]
			if m.Usable(p.Parts[i].Seen[m.ID], s.cfg.Pool, s.u.Now) {
				k.machines = append(k.machines, m)
			}
		}
	}
	slices.SortFunc(k.machines, func(x, y *record.PoolMachine) int { return strings.Compare(x.ID, y.ID) })
	names := k.kinds(wants)
	k.p.Resources = []placement.Resource{{Name: "cpus", Points: 1}, {Name: "memory", Points: 1},
		{Name: "tasks", Points: 1}}
	for _, name := range names {
		k.p.Resources = append(k.p.Resources, placement.Resource{Name: name, Points: 1})
	}
	for i := range k.classes {
		k.p.Resources = append(k.p.Resources, placement.Resource{Name: fmt.Sprintf("class%d", i), Points: 1})
	}
	for i, m := range k.machines {
		k.p.Shapes = append(k.p.Shapes, placement.Shape{Capacity: k.capacity(m, names)})
		k.p.Machines = append(k.p.Machines, placement.Machine{Name: m.ID, Shape: i})
	}
	ranks := ranksOf(wants)
	for _, w := range wants {
		app := int32(len(k.p.Apps)) //nolint:gosec // few
		k.p.Apps = append(k.p.Apps,
			placement.App{Name: w.key(), Demand: k.demand(w, names), Priority: ranks[w.a.waiting.Priority]})
		if w.a.nodes > 1 {
			k.p.Rules = append(k.p.Rules, placement.Rule{A: app, B: app, Max: 1})
		}
		k.first = append(k.first, int32(len(k.p.Instances))) //nolint:gosec // few
		for n := range w.a.nodes {
			k.p.Instances = append(k.p.Instances, placement.Instance{Name: fmt.Sprintf("%s/%d", w.key(), n), App: app,
				Machine: placement.Unplaced})
		}
	}
	return k, nil
}

// kinds lists the classes of machines, and the names of accelerators, in small letters.
func (k *packing) kinds(wants []*want) (accelerators []string) {
	add := func(name string) {
		if name = strings.ToLower(name); name != "" && !slices.Contains(accelerators, name) {
			accelerators = append(accelerators, name)
		}
	}
	for _, m := range k.machines {
		if !slices.Contains(k.classes, m.Class()) {
			k.classes = append(k.classes, m.Class())
		}
		add(m.Capacity.Accelerator)
	}
	for _, w := range wants {
		add(w.hold.Accelerator)
	}
	return accelerators
}

// parts turns a quantity into parts of placement's unit; what there is is rounded down, what is asked for up.
func parts(x float64, round func(float64) float64) int64 {
	return int64(round(max(0, min(x, placement.MaxValue)) * placement.Unit))
}

// capacity is what a machine has left of each resource.
func (k *packing) capacity(m *record.PoolMachine, names []string) []int64 {
	free := m.Free()
	v := []int64{
		parts(free.CPUs+record.CapacityEps, math.Floor), parts(free.MemoryGiB+record.CapacityEps, math.Floor),
		parts(float64(record.MaxUses-len(m.Uses)), math.Floor),
	}
	for _, name := range names {
		has := 0.0
		if strings.EqualFold(name, free.Accelerator) {
			has = free.Accelerators
		}
		v = append(v, parts(has, math.Floor))
	}
	for _, class := range k.classes {
		any := int64(placement.Unit)
		if class == m.Class() {
			any = 0
		}
		v = append(v, any)
	}
	return v
}

// demand is what a task asks for of each resource.
func (k *packing) demand(w *want, names []string) []int64 {
	v := []int64{parts(w.hold.CPUs, math.Floor), parts(w.hold.MemoryGiB, math.Floor), placement.Unit}
	for _, name := range names {
		asks := 0.0
		if strings.EqualFold(name, w.hold.Accelerator) {
			asks = w.hold.Accelerators
		}
		v = append(v, parts(asks, math.Ceil))
	}
	for _, class := range k.classes {
		not := int64(1)
		if _, may := w.machines[class]; may {
			not = 0
		}
		v = append(v, not)
	}
	return v
}

// ranksOf numbers the priorities of tasks from 0.
func ranksOf(wants []*want) map[int]int {
	var all []int
	for _, w := range wants {
		all = append(all, w.a.waiting.Priority)
	}
	slices.Sort(all)
	ranks := map[int]int{}
	for _, p := range slices.Compact(all) {
		ranks[p] = len(ranks)
	}
	return ranks
}

// hosts are the machines of a task's nodes.
func (k *packing) hosts(w *want, i int, at placement.Assignment) placement.Assignment {
	return at[k.first[i] : int(k.first[i])+w.a.nodes]
}

// broken finds a gang that is placed in part: the least urgent, of those the last in turn. It is −1 where there is
// none.
func (k *packing) broken(wants []*want, at placement.Assignment) int {
	found := -1
	for i, w := range wants {
		hosts := k.hosts(w, i, at)
		whole := !slices.Contains(hosts, placement.Unplaced)
		none := !slices.ContainsFunc(hosts, func(m int32) bool { return m != placement.Unplaced })
		if !whole && !none && (found < 0 || w.a.waiting.Priority <= wants[found].a.waiting.Priority) {
			found = i
		}
	}
	return found
}

// pooled tells what an assignment means for a task.
func (k *packing) pooled(p *record.PoolSeen, w *want, at placement.Assignment) *pooled {
	out := &pooled{pool: p.Pool, hold: w.hold, instead: w.instead}
	usd := 0.0
	for _, i := range at {
		m := k.machines[i]
		out.hosts = append(out.hosts, m.ID)
		out.hours = max(out.hours, w.machines[m.Class()])
		usd += m.Share(w.hold) * p.USDPerHour
	}
	out.offer = cloud.Offer{
		Cloud: record.PoolCloud, Region: p.Name, InstanceType: k.machines[at[0]].Type, Accelerator: w.hold.Accelerator,
		AccelCount: w.hold.Accelerators, USDPerHour: usd / float64(len(at)),
	}
	return out
}

// partition is a partition as it was seen, with what the session itself has written of it.
func (s *Session) partition(p *record.PoolSeen, index int) (record.Partition, error) {
	part, _, err := book.Get[record.Partition](s.u, record.PartitionKey(p.Name, index))
	return part, err
}
