// Package optimizer chooses where each task of a DAG runs: exactly one of its
// candidates (cloud, region, zone, type, market) for each task, so that the
// total cost or the makespan is the least possible, either one bounded by the
// other. It follows the optimizer of the intercloud broker (equations 1 to 3 of
// its section on the ILP formulation) but counts transfers between all places,
// calls no solver, and proves what it says: every answer carries a bound that no
// plan can beat.
//
// [Solve] takes a [Model] and returns a [Solution]; [ReadModel] reads the
// model's JSON form. [NewExplainer] explains a plan, and
// [Solution.Reason] says what to relax when there is none. The package does no
// I/O, starts no goroutines and keeps no state; catalogue queries, expected spot
// prices, surcharges and residency are the caller's, who expresses them as
// candidates.
//
// # How it is solved
//
// Transfers depend on places alone, so candidates at one place compete by their
// own cost and time only (compile.go), and what is left is a network of tasks
// over places. Each method is a package below internal; they see that network
// alone, never a Model.
//
// Cost (leastcost): options that transfers can never justify are dropped, the
// network falls apart into components, chains, trees and series-parallel parts
// are eliminated exactly (elimination), message passing raises a lower bound and
// rules out values against the best plan so far (network), what is narrow is
// finished by bucket elimination (elimination) and the rest by branch and bound.
//
// Makespan (makespan): bounds on the earliest start and the least rest for each
// task and place (windows) are exact unless paths part and meet again, and
// branching settles the tasks at which they do.
//
// Cost within a deadline and makespan within a budget (bounded): a price on time
// along the paths turns both into one cost network (pricing). Linear programming
// (simplex) over the plans and paths seen so far finds the price, or for many
// tasks a multiplicative update. Series-parallel graphs are then finished by
// label setting over Pareto fronts (labels), others by branch and bound over
// options.
//
// Carbon: emissions in the place of costs, and what has two sums to bound by a
// price on one of them (carbon.go, capped.go).
//
// # Guarantees
//
// Optimal means proven to a relative 1e-9. Bounds are kept to a relative 1e-9,
// what rounding can explain. The same model gives the same plan, whatever the
// order of its tasks, places, candidates and edges: everything is worked out in
// the order of ids, and of candidates at one place that cost (or take) the same
// the one that takes (or costs) less counts, then the one whose id comes first.
// A time limit, though not a work limit, may make the plan differ from run to
// run.
package optimizer
