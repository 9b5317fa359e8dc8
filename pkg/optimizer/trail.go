package optimizer

// trail is the list of eliminated nodes, the latest first.
type trail struct {
	before *trail
	step   restorer
}

// restorer knows the best values of eliminated nodes, given those of the nodes
// that were left.
type restorer interface {
	// restore writes them to p, an option index per task.
	restore(p plan)
}

func (n *network) remember(r restorer) { n.trail = &trail{before: n.trail, step: r} }

// restore completes p for all the eliminated tasks.
func (n *network) restore(p plan) {
	for t := n.trail; t != nil; t = t.before {
		t.step.restore(p)
	}
}
