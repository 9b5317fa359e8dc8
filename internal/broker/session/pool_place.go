package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// packing is a problem of pkg/placement: tasks, and the free capacity of machines of some partitions.
type packing struct {
	p        placement.Problem
	machines []*record.PoolMachine
	classes  []record.MachineClass // as numbered in a session over machines
	first    []int32               // for each want, its first instance; the instances of a gang follow each other
}

// place places as many tasks as possible on machines of some partitions of a pool, the most urgent first. The
// partitions that it uses become part of the transaction, in the version that was read.
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

// pack places tasks with pkg/placement.
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

// machines loads the machines of some partitions that can take new tasks.
func (s *Session) machines(k *packing, p *record.PoolSeen, parts []int) error {
	for _, i := range parts {
		// The partition as it was read, with this session's own writes.
		part, _, err := recordcache.Get[record.Partition](s.u, record.PartitionKey(p.Name, i))
		if err != nil {
			return err
		}
		for j := range part.Machines {
			m := &part.Machines[j]
			if len(m.Promises) > 0 {
				left := m.WithPromises("", s.u.Now)
				m = &left
			}
			if m.Usable(p.Parts[i].Seen[m.ID], s.Config.Pool, s.u.Now) {
				k.machines = append(k.machines, m)
			}
		}
	}
	slices.SortFunc(k.machines, func(x, y *record.PoolMachine) int { return strings.Compare(x.ID, y.ID) })
	return nil
}

// packing builds the placement problem.
func (s *Session) packing(p *record.PoolSeen, parts []int, wants []*want) (*packing, error) {
	k := &packing{}
	if err := s.machines(k, p, parts); err != nil {
		return nil, err
	}
	var space poolfit.Space
	for _, m := range k.machines {
		space.Machine(m)
	}
	for _, w := range wants {
		space.Accelerator(w.hold.Accelerator)
	}
	k.p.Resources = space.Resources()
	for i, m := range k.machines {
		k.p.Shapes = append(k.p.Shapes, placement.Shape{Capacity: space.Free(m)})
		k.p.Machines = append(k.p.Machines, placement.Machine{Name: m.ID, Shape: i})
	}
	var priorities []int
	for _, w := range wants {
		priorities = append(priorities, w.a.waiting.Priority)
	}
	ranks := poolfit.Priorities(priorities)
	for _, w := range wants {
		app := int32(len(k.p.Apps)) //nolint:gosec // few
		k.p.Apps = append(k.p.Apps,
			placement.App{Name: w.a.key(), Demand: space.Demand(w.hold, w.machines),
				Priority: ranks[w.a.waiting.Priority]})
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

// hosts returns the machines that are assigned to the nodes of a task.
func (k *packing) hosts(w *want, i int, at placement.Assignment) placement.Assignment {
	return at[k.first[i] : int(k.first[i])+w.a.nodes]
}

// broken returns a task that is placed only in part: the least urgent, and of equally urgent ones the last. It
// returns −1 if there is none.
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

// pooled turns an assignment into the placement of a task.
func (k *packing) pooled(p *record.PoolSeen, w *want, at placement.Assignment) *pooled {
	out := &pooled{pool: p.Pool, hold: w.hold, instead: w.instead}
	usd := 0.0
	for _, i := range at {
		m := k.machines[i]
		out.hosts, out.spots = append(out.hosts, m.ID), append(out.spots, poolfit.SpotOf(&p.Pool, m))
		out.hours = max(out.hours, w.machines[m.Class()])
		usd += m.Share(w.hold) * p.USDPerHour
	}
	out.offer = apitypes.Offer{
		Cloud:        apitypes.PoolCloud,
		Region:       p.Name,
		InstanceType: k.machines[at[0]].Type,
		Accelerator:  w.hold.Accelerator,
		AccelCount:   w.hold.Accelerators,
		USDPerHour:   usd / float64(len(at)),
	}
	return out
}
