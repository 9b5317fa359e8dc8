// Package optimizer chooses where each task of a DAG runs. It picks one candidate (cloud, region, zone, type, market)
// for each task, so that the total cost or the makespan is minimal, optionally with a bound on the other. It follows
// the optimizer of the intercloud broker paper (equations 1 to 3 of its section on the ILP formulation). Unlike the
// paper, it counts transfers between all places, calls no external solver, and proves its results: every answer has a
// bound that no plan can beat.
//
// [Solve] takes a [Model] and returns a [Solution]. [ReadModel] reads the model's JSON form. [NewExplainer] explains
// a plan. If there is no plan, [Solution.Reason] says what to relax. The package does no I/O, starts no goroutines
// and keeps no state. The caller handles catalogue queries, expected spot prices, surcharges and data residency, and
// expresses them as candidates.
//
// # How it is solved
//
// Transfers depend only on places, so candidates at the same place compete only by their own cost and time
// (compile.go). This reduces the model to a network of tasks over places. Each solution method is a package below
// internal and works on that network, not on a Model.
//
// Cost (leastcost): drop options that transfers can never justify, and split the network into components. Chains,
// trees and series-parallel parts are eliminated exactly (elimination). Message passing raises a lower bound and
// excludes values that cannot beat the best plan so far (network). Narrow remainders are solved by bucket elimination
// (elimination), others by branch and bound.
//
// Makespan (makespan): for each task and place, bound the earliest start and the minimum remaining time (windows).
// These bounds are exact unless paths fork and join again. Branching decides the tasks at such forks and joins.
//
// Cost within a deadline, and makespan within a budget (bounded): a price on time along the paths turns both into a
// single cost network (pricing). The price comes from linear programming (simplex) over the plans and paths seen so
// far, or, for many tasks, from a multiplicative update. Series-parallel graphs are then solved by label setting over
// Pareto fronts (labels), others by branch and bound over options.
//
// Carbon: emissions take the place of costs. Models with bounds on two sums put a price on one of them (carbon.go,
// capped.go).
//
// # Guarantees
//
// Optimal means proven to a relative 1e-9. Bounds hold to a relative 1e-9, which allows for rounding. The same model
// gives the same plan, whatever the order of its tasks, places, candidates and edges, because everything is computed
// in the order of ids. Among candidates at one place with equal cost (or time), the one with less time (or cost)
// wins, then the one whose id comes first. With a time limit, but not with a work limit, the plan may differ from run
// to run.
package optimizer
