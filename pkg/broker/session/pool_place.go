package session

import (
	"fmt"
	"maps"
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

// place places tasks on machines of some partitions of a pool, each that it can, the most urgent first. The partitions
// that are taken from are in the unit then, as they were seen.
func (s *Session) place(p *record.PoolSeen, parts []int, wants []*want) error {
	if policy := machinePolicy(s.Policy); policy != nil {
		ruled := slices.DeleteFunc(slices.Clone(wants), func(w *want) bool { return !w.a.isRuled() })
		if err := s.pack(p, parts, ruled); err != nil {
			return err
		}
		return s.arrange(p, parts, wants, ruled, policy)
	}
	return s.pack(p, parts, wants)
}

// pack places tasks by pkg/placement.
func (s *Session) pack(p *record.PoolSeen, parts []int, wants []*want) error {
	if len(wants) == 0 {
		return nil
	}
	k, err := s.packing(p, parts, wants)
	if err != nil || len(k.machines) == 0 {
		return err
	}
	network, err := placement.New(&k.p, placement.Options{Exact: -1})
	if err != nil {
		return record.Final(fmt.Errorf("broker: pool %s: %w", p.Name, err))
	}
	at := network.Solve().Assignment
	for i := k.broken(wants, at); i >= 0; i = k.broken(wants, at) {
		for n := range int32(wants[i].a.nodes) { //nolint:gosec // few
			if err := network.RemoveInstance(k.first[i] + n); err != nil {
				return record.Final(err)
			}
		}
		at = network.Solve().Assignment
	}
	for i, w := range wants {
		if hosts := k.hosts(w, i, at); hosts[0] != placement.Unplaced {
			w.a.pool = k.pooled(p, w, hosts)
		}
	}
	return nil
}

// machines loads those of some partitions that may be given something new.
func (s *Session) machines(k *packing, p *record.PoolSeen, parts []int) error {
	for _, i := range parts {
		// As it was seen, with what the session itself has written of it.
		part, _, err := book.Get[record.Partition](s.u, record.PartitionKey(p.Name, i))
		if err != nil {
			return err
		}
		for j := range part.Machines {
			m := &part.Machines[j]
			if m.Usable(p.Parts[i].Seen[m.ID], s.Config.Pool, s.u.Now) {
				k.machines = append(k.machines, m)
			}
		}
	}
	slices.SortFunc(k.machines, func(x, y *record.PoolMachine) int { return strings.Compare(x.ID, y.ID) })
	return nil
}

// packing lays out the problem. Resources are vCPUs, memory, what may run beside each other, each accelerator by name,
// and for each class of machines one that its machines have none of: who may not go there asks for some of it.
func (s *Session) packing(p *record.PoolSeen, parts []int, wants []*want) (*packing, error) {
	k := &packing{}
	if err := s.machines(k, p, parts); err != nil {
		return nil, err
	}
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
			placement.App{Name: w.a.key(), Demand: k.demand(w, names), Priority: ranks[w.a.waiting.Priority]})
		if w.a.nodes > 1 {
			k.p.Rules = append(k.p.Rules, placement.Rule{A: app, B: app, Max: 1})
		}
		k.first = append(k.first, int32(len(k.p.Instances))) //nolint:gosec // few
		for n := range w.a.nodes {
			k.p.Instances = append(k.p.Instances, placement.Instance{Name: fmt.Sprintf("%s/%d", w.a.key(), n), App: app,
				Machine: placement.Unplaced})
		}
	}
	return k, s.rules(k, p, wants)
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

// ranksOf numbers the priorities of tasks from 0.
func ranksOf(wants []*want) map[int]int {
	ranks := map[int]int{}
	for _, w := range wants {
		ranks[w.a.waiting.Priority] = 0
	}
	for rank, priority := range slices.Sorted(maps.Keys(ranks)) {
		ranks[priority] = rank
	}
	return ranks
}

// capacity is what a machine has left of each resource.
func (k *packing) capacity(m *record.PoolMachine, names []string) []int64 {
	free := m.Free()
	free.CPUs += record.CapacityEps
	free.MemoryGiB += record.CapacityEps
	return k.vector(free, record.MaxUses-len(m.Uses), names, func(class record.MachineClass) int64 {
		if class == m.Class() {
			return 0
		}
		return placement.Unit
	})
}

// demand is what a task asks for of each resource.
func (k *packing) demand(w *want, names []string) []int64 {
	return k.vector(w.hold, 1, names, func(class record.MachineClass) int64 {
		if _, may := w.machines[class]; may {
			return 0
		}
		return 1
	})
}

// vector is how much of each resource a capacity is, beside so many tasks, in parts of placement's unit, rounded down;
// of says it of what stands for a class.
func (k *packing) vector(c record.Capacity, tasks int, names []string, of func(record.MachineClass) int64) []int64 {
	parts := func(x float64) int64 { return int64(max(0, min(x, placement.MaxValue)) * placement.Unit) }
	v := []int64{parts(c.CPUs), parts(c.MemoryGiB), parts(float64(tasks))}
	for _, name := range names {
		has := 0.0
		if strings.EqualFold(name, c.Accelerator) {
			has = c.Accelerators
		}
		v = append(v, parts(has))
	}
	for _, class := range k.classes {
		v = append(v, of(class))
	}
	return v
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
		some := slices.ContainsFunc(hosts, func(m int32) bool { return m != placement.Unplaced })
		inPart := some && slices.Contains(hosts, placement.Unplaced)
		if inPart && (found < 0 || w.a.waiting.Priority <= wants[found].a.waiting.Priority) {
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
		out.hosts, out.spots = append(out.hosts, m.ID), append(out.spots, spotOf(&p.Pool, m))
		out.hours = max(out.hours, w.machines[m.Class()])
		usd += m.Share(w.hold) * p.USDPerHour
	}
	out.offer = cloud.Offer{
		Cloud: record.PoolCloud, Region: p.Name, InstanceType: k.machines[at[0]].Type, Accelerator: w.hold.Accelerator,
		AccelCount: w.hold.Accelerators, USDPerHour: usd / float64(len(at)),
	}
	return out
}
