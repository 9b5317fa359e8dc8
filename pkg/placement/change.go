package placement

import (
	"fmt"
	"slices"
)

// AddMachines adds machines; the next Solve uses them. It returns the number of the first.
func (n *Network) AddMachines(machines ...Machine) (int32, error) {
	first := int32(len(n.p.Machines)) //nolint:gosec // machines in memory
	for _, m := range machines {
		if m.Shape < 0 || m.Shape >= len(n.p.Shapes) || m.Rack < 0 || m.Cluster < 0 {
			return 0, fmt.Errorf("%w: machine %s: shape %d of %d, rack %d, cluster %d",
				ErrProblem, m.Name, m.Shape, len(n.p.Shapes), m.Rack, m.Cluster)
		}
	}
	for _, m := range machines {
		n.p.Machines = append(n.p.Machines, m)
		n.join(int32(len(n.p.Machines)-1), m.Rack != 0 || m.Cluster != 0) //nolint:gosec // machines in memory
	}
	return first, nil
}

// RemoveMachine takes a machine away. What ran on it waits, in front of others of its app.
func (n *Network) RemoveMachine(m int32) error {
	if m < 0 || int(m) >= len(n.on) || n.gone[m] {
		return fmt.Errorf("%w: there is no machine %d", ErrProblem, m)
	}
	for _, i := range slices.Clone(n.on[m]) {
		app := n.p.Instances[i].App
		n.take(i)
		n.waiting[app] = slices.Insert(slices.Clone(n.waiting[app]), 0, i)
	}
	n.gone[m] = true
	n.epoch++
	return nil
}

// AddApps adds apps and the rules that come with them, which may name earlier apps
// too as long as no machine breaks them already. It returns the number of the first.
func (n *Network) AddApps(apps []App, rules ...Rule) (int32, error) {
	first := int32(len(n.p.Apps)) //nolint:gosec // apps in memory
	next := *n.p
	next.Apps = append(slices.Clip(next.Apps), apps...)
	next.Rules = append(slices.Clip(next.Rules), rules...)
	if err := next.Validate(); err != nil {
		return 0, err
	}
	for m := range n.held {
		for _, r := range rules {
			held := &n.held[m]
			if held.Get(r.A) > 0 && held.Get(r.B) > r.Max {
				return 0, fmt.Errorf("%w: machine %s holds %d of %s already", ErrProblem, n.p.Machines[m].Name, held.Get(r.B), n.p.Apps[r.B].Name)
			}
		}
	}
	*n.p = next
	n.limits.Grow(len(n.p.Apps))
	for _, r := range rules {
		n.limits.Add(r)
	}
	for range apps {
		n.waiting, n.edges = append(n.waiting, nil), append(n.edges, nil)
	}
	n.stale, n.space.ranks = true, nil
	return first, nil
}

// AddInstances adds instances of an app, which wait. It returns the number of the first.
func (n *Network) AddInstances(app int32, names ...string) (int32, error) {
	if app < 0 || int(app) >= len(n.p.Apps) {
		return 0, fmt.Errorf("%w: there is no app %d", ErrProblem, app)
	}
	first := int32(len(n.p.Instances)) //nolint:gosec // rows in memory
	for i, name := range names {
		n.p.Instances = append(n.p.Instances, Instance{Name: name, App: app, Machine: Unplaced})
		n.at, n.left = append(n.at, Unplaced), append(n.left, false)
		n.waiting[app] = append(n.waiting[app], first+int32(i)) //nolint:gosec // rows in memory
	}
	n.stale = true
	return first, nil
}

// RemoveInstance takes an instance away, from its machine or from those that wait.
func (n *Network) RemoveInstance(i int32) error {
	if i < 0 || int(i) >= len(n.at) || n.left[i] {
		return fmt.Errorf("%w: there is no instance %d", ErrProblem, i)
	}
	if m := n.at[i]; m != Unplaced {
		n.take(i)
		n.freed(m)
	} else {
		app := n.p.Instances[i].App
		n.waiting[app] = remove(n.waiting[app], i)
	}
	n.left[i] = true
	return nil
}

// Present is the problem and the assignment without the instances that were
// removed, as [Verify] wants them. Machines that were removed are there still, empty, so that numbers stay.
func (n *Network) Present() (*Problem, Assignment) {
	p := *n.p
	p.Instances = nil
	var at Assignment
	for i, in := range n.p.Instances {
		if !n.left[i] {
			p.Instances, at = append(p.Instances, in), append(at, n.at[i])
		}
	}
	return &p, at
}
