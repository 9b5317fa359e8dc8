// Package pricing bounds cost and makespan together: a price on time along the paths of the graph turns both into one
// cost network (Lagrangian), and a Pricer finds the price and the paths that bound best.
package pricing

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Pricer decides what time costs: the lambda and flow of a lagrangian. It and
// the lagrangian take turns, prices against the plan that is cheapest at those
// prices, until the bound no longer rises. There are two: the master, which is
// exact but slow where many paths matter, and the spreader, which is neither.
type Pricer interface {
	// Begin sets prices for box b from what is known of plans in it. Plans
	// are to be no longer than deadline and cost less than dear.
	Begin(b *windows.Box, deadline, dear float64)
	// Answer sets them again when p is cheapest at the last ones.
	Answer(b *windows.Box, p problem.Plan, deadline, dear float64)
	// Inform passes the prices on.
	Inform(l *Lagrangian)
	// Remember makes the present prices those that recall comes back to.
	Remember()
	Recall()
	// Reach is what the bound on the cost of plans within the deadline could
	// at best become, +Inf where that is not known.
	Reach() float64
	// Average is the time of each task in the mixture of plans that the
	// prices answer.
	Average() []float64
}

// NewPricer is the pricer for as many tasks as inst has. cheap and fast are the plans best in cost and in time.
func NewPricer(inst *problem.Instance, cheap, fast problem.Plan, th search.Thresholds) Pricer {
	if inst.NTask() >= th.ManyTasks {
		return newSpreader(inst, cheap, fast)
	}
	ms := newMaster(inst)
	ms.addPlan(cheap)
	ms.addPlan(fast)
	return ms
}
