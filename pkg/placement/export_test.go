package placement

import "slices"

// Present is the problem and the assignment without the instances that were
// removed, as [Verify] wants them.
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

// Assignment is where each instance is now. Instances that were removed are Unplaced.
func (n *Network) Assignment() Assignment { return slices.Clone(n.at) }

// Problem is the problem as it is now, with what was added. It must not be changed.
func (n *Network) Problem() *Problem { return n.p }

// Edges is how many edges the network has: |T| + |A||R| + |N|.
func (n *Network) Edges() int {
	return len(n.p.Instances) + len(n.p.Apps)*len(n.racks) + len(n.p.Machines)
}
