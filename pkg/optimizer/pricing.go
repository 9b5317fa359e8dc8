package optimizer

// pricer decides what time costs: the lambda and flow of a lagrangian. It and
// the lagrangian take turns, prices against the plan that is cheapest at those
// prices, until the bound no longer rises. There are two: the master, which is
// exact but slow where many paths matter, and the spreader, which is neither.
type pricer interface {
	// begin sets prices for box b from what is known of plans in it. Plans
	// are to be no longer than deadline and cost less than dear.
	begin(b *box, deadline, dear float64)
	// answer sets them again when p is cheapest at the last ones.
	answer(b *box, p plan, deadline, dear float64)
	// inform passes the prices on.
	inform(l *lagrangian)
	// remember makes the present prices those that recall comes back to.
	remember()
	recall()
	// reach is what the bound on the cost of plans within the deadline could
	// at best become, +Inf where that is not known.
	reach() float64
	// average is the time of each task in the mixture of plans that the
	// prices answer.
	average() []float64
}

func newPricer(inst *instance, cheap, fast plan, th thresholds) pricer {
	if inst.nTask() >= th.manyTasks {
		return newSpreader(inst, cheap, fast)
	}
	ms := newMaster(inst)
	ms.addPlan(cheap)
	ms.addPlan(fast)
	return ms
}
