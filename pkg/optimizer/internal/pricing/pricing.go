// Package pricing bounds cost and makespan together: a price on time along the paths of the graph turns both into one
// cost network (Lagrangian), and a Pricer finds the price and the paths that give the best bound.
package pricing

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Pricer decides the price of time: the lambda and flow of a lagrangian. Both work alternately: the pricer sets
// prices, and the lagrangian returns the cheapest plan at those prices, until the bound stops rising. There are two
// pricers. The master is exact, but slow if many paths matter. The spreader is fast, but not exact.
type Pricer interface {
	// Begin sets prices for box b from the plans known in it. Plans should take at most deadline and cost less than
	// dear.
	Begin(b *windows.Box, deadline, dear float64)
	// Answer updates the prices, after p was the cheapest plan at the last ones.
	Answer(b *windows.Box, p problem.Plan, deadline, dear float64)
	// Inform passes the prices to the lagrangian.
	Inform(l *Lagrangian)
	// Remember stores the current prices, and Recall restores them.
	Remember()
	Recall()
	// Reach returns the best possible value of the bound on the cost of plans within the deadline, or +Inf if
	// unknown.
	Reach() float64
	// Average returns the mean time of each task in the mixture of plans on which the prices are based.
	Average() []float64
}

// NewPricer returns the pricer for the number of tasks in inst. cheap and fast are the plans with the lowest cost and
// time.
func NewPricer(inst *problem.Instance, cheap, fast problem.Plan, th search.Thresholds) Pricer {
	if inst.NTask() >= th.ManyTasks {
		return newSpreader(inst, cheap, fast)
	}
	ms := newMaster(inst)
	ms.addPlan(cheap)
	ms.addPlan(fast)
	return ms
}
