package session

import (
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/poolfit"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Placement rules in pools: a task is barred from machines on which it would violate a rule together with tasks that
// already run there. Rules between tasks that are placed together become rules and groups of pkg/placement.

// rules adds the placement rules of tasks to a problem.
func (s *Session) rules(k *packing, p *record.PoolSeen, wants []*want) error {
	ruled := false
	for i, w := range wants {
		if !w.a.isRuled() {
			continue
		}
		ruled = true
		barred, err := s.barred(k, p, w)
		if err != nil {
			return err
		}
		k.p.Apps[i].Barred = barred
		for j, other := range wants[:i] {
			if other.a.isRuled() && apart(w.a, other.a) {
				k.p.Rules = append(k.p.Rules, placement.Rule{A: int32(i), B: int32(j)}) //nolint:gosec // few
			}
		}
	}
	if !ruled {
		return nil
	}
	k.stand(&p.Pool)
	k.group(wants)
	return nil
}

// stand numbers the zones and racks of machines.
func (k *packing) stand(p *record.Pool) {
	zones, racks := map[string]int{}, map[string]int{}
	number := func(known map[string]int, name string) int {
		if _, is := known[name]; !is {
			known[name] = len(known)
		}
		return known[name]
	}
	for i, m := range k.machines {
		at := poolfit.SpotOf(p, m)
		if at.Rack == "" {
			at.Rack = "\x00" + m.ID // an unknown rack: tasks that need a known one are barred
		}
		k.p.Machines[i].Cluster = number(zones, at.Zone)
		k.p.Machines[i].Rack = number(racks, at.Zone+"/"+at.Rack)
	}
}

// group adds the rules that spread or pack the tasks of a job over zones and racks.
func (k *packing) group(wants []*want) {
	known := map[*dag.Placement]int{}
	for i, w := range wants {
		for _, g := range w.a.groups {
			level := g.Level()
			if level != dag.LevelZone && level != dag.LevelRack || !g.Has(w.a.waiting.Task) {
				continue
			}
			n, is := known[g.Placement]
			if !is {
				n = len(k.p.Groups)
				known[g.Placement] = n
				of := placement.Group{By: placement.ByRack}
				if level == dag.LevelZone {
					of.By = placement.ByCluster
				}
				if g.Spread != "" {
					of.Max = int32(g.MaxPerPlace()) //nolint:gosec // at most dag.MaxNodes
				}
				k.p.Groups = append(k.p.Groups, of)
			}
			k.p.Groups[n].Apps = append(k.p.Groups[n].Apps, int32(i)) //nolint:gosec // few
		}
	}
}

// apart reports whether two tasks that are placed together must not share a machine.
func apart(a, b *admission) bool {
	spot := []record.Spot{{Machine: "one", Count: 1}}
	stand := func(a *admission) record.Location {
		return record.LocationOf(&a.spec.Tasks[a.waiting.Task], spot, a.waiting.Since)
	}
	clashes := record.Clashes(a.groups, a.job.ID, a.waiting.Task, stand(a),
		[]record.Placed{{Job: b.job.ID, Task: b.waiting.Task, Location: stand(b)}})
	return len(clashes) > 0
}

// barred returns the machines that a task must not use because of the tasks that run there.
func (s *Session) barred(k *packing, p *record.PoolSeen, w *want) ([]int32, error) {
	a := w.a
	t := &a.spec.Tasks[a.waiting.Task]
	others, clusters, err := recordcache.Others(s.u, a.job.ID, record.LabelStandsKeys(t))
	if err != nil {
		return nil, err
	}
	look := func(others []record.Placed) (barred []int32, in map[int]bool) {
		in = map[int]bool{}
		for i, m := range k.machines {
			spot := poolfit.SpotOf(&p.Pool, m)
			found := record.Clashes(a.groups, a.job.ID, a.waiting.Task,
				record.LocationOf(t, []record.Spot{spot}, s.u.Now), others)
			for _, c := range found {
				for _, n := range c.With {
					in[n] = true
				}
			}
			if len(found) > 0 || spot.Rack == "" && a.needsRack() || s.offHours(m, a) {
				barred = append(barred, int32(i)) //nolint:gosec // machines in memory
			}
		}
		return barred, in
	}
	barred, in := look(others)
	if len(in) == 0 {
		return barred, nil
	}
	there, err := recordcache.Staying(s.u, others, clusters)
	if err != nil {
		return nil, err
	}
	barred, _ = look(there)
	return barred, nil
}

// offHours reports whether the policy's time windows forbid a task to use a machine now.
func (s *Session) offHours(m *record.PoolMachine, a *admission) bool {
	if machinePolicy(s.Policy) == nil {
		return false
	}
	_, closed := WindowClosed(s.Policy, m.Labels, s.u.Now)
	_, named := windows(s.Policy)[m.Labels[record.LabelWindow]]
	return closed || named && !a.saves()
}

// needsRack reports whether a task has a rule for which the racks of machines must be known.
func (a *admission) needsRack() bool {
	for _, rule := range a.spec.Tasks[a.waiting.Task].ApartRules() {
		if rule.Level() == dag.LevelRack {
			return true
		}
	}
	return slices.ContainsFunc(a.groups, func(g dag.PlacementGroup) bool {
		return g.Level() == dag.LevelRack && g.Has(a.waiting.Task)
	})
}

// give adds the resources of a task to the machines on which it will run.
func (k *packing) give(p *pooled) {
	if p == nil {
		return
	}
	for rank, host := range p.hosts {
		for i, m := range k.machines {
			if m.ID == host {
				full := *m
				full.Uses = append(slices.Clone(m.Uses), record.PoolUse{Rank: rank, Hold: p.hold,
					Devices: m.Devices(p.hold)})
				k.machines[i] = &full
			}
		}
	}
}
