package placement

import "slices"

// Present returns the problem and the assignment without the removed instances, for [Verify].
func (n *Network) Present() (*Problem, Assignment) {
	p := *n.p
	p.Instances = nil
	var at Assignment
	for i, in := range n.p.Instances {
		if !n.removed[i] {
			p.Instances, at = append(p.Instances, in), append(at, n.at[i])
		}
	}
	return &p, at
}

// Assignment returns the machine of each instance. Removed instances are Unplaced.
func (n *Network) Assignment() Assignment { return slices.Clone(n.at) }

// Problem returns the current problem. The caller must not change it.
func (n *Network) Problem() *Problem { return n.p }
