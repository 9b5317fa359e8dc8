package network

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// trail is the list of eliminated nodes, latest first.
type trail struct {
	before *trail
	step   restorer
}

// restorer computes the best values of eliminated nodes from those of the remaining nodes.
type restorer interface {
	// Restore writes the values to p, an option index per task.
	Restore(p problem.Plan)
}

// Remember records that nodes have been eliminated; r restores their values.
func (n *Network) Remember(r restorer) { n.trail = &trail{before: n.trail, step: r} }

// Restore completes p for all the eliminated tasks.
func (n *Network) Restore(p problem.Plan) {
	for t := n.trail; t != nil; t = t.before {
		t.step.Restore(p)
	}
}
