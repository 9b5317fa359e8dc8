package network

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// trail is the list of eliminated nodes, the latest first.
type trail struct {
	before *trail
	step   restorer
}

// restorer knows the best values of eliminated nodes, given those of the nodes
// that were left.
type restorer interface {
	// Restore writes them to p, an option index per task.
	Restore(p problem.Plan)
}

// Remember notes that nodes have been eliminated, which r restores.
func (n *Network) Remember(r restorer) { n.trail = &trail{before: n.trail, step: r} }

// Restore completes p for all the eliminated tasks.
func (n *Network) Restore(p problem.Plan) {
	for t := n.trail; t != nil; t = t.before {
		t.step.Restore(p)
	}
}
