// Package shared plans tasks that share machines. It buys instances of machines (with boot time, billing minimum and
// increment, speed and a number that can be bought) and gives each task of a DAG a time on one of them, so that cost
// or makespan is minimal, within a deadline and a budget.
//
// It is the second form of the optimizer. Package optimizer has the first, in which each task has a machine for
// itself and the choice is proven optimal. Sharing makes the problem much harder (it contains bin packing and
// scheduling), so this package searches and reports a bound: [Solution.Bound] is at most the objective of any plan.
//
// # How it is solved
//
// Of thousands of machines the search keeps some dozens (select.go): the best by an estimate, and the cheapest work of
// each size and speed. Starting plans are list schedules (HEFT, heft.go) on each number of identical machines. The
// best is improved by ruin and recreate with simulated annealing (search.go, recreate.go): tasks leave their
// instances, or instances are merged, split or replaced by others, and each open task goes where it costs least.
// After each change all tasks move as late and then as early as possible (schedule.go), which shortens rentals.
// Between such rounds, a few tasks at a time move between the fixed times of the others (local.go). The number of
// steps depends on the model only, so the same model has the same plan.
//
// The bound (bound.go) adds up each task's least share of a machine. Package judge checks plans.
package shared
