// Package optimizer chooses where each task of a DAG runs: exactly one of its
// candidates (cloud, region, zone, type, market) for each task, so that the
// total cost or the makespan is the least possible, either one bounded by the
// other. It follows the optimizer of the intercloud broker (equations 1 to 3 of
// its section on the ILP formulation) but counts transfers between all places,
// calls no solver, and proves what it says: every answer carries a bound that no
// plan can beat.
//
// [Solve] takes a [Model] and returns a [Solution]; [ReadModel] reads the
// model's JSON form. [Runners] and [Replanned] explain a plan, and
// [Solution.Reason] says what to relax when there is none. The package does no
// I/O, starts no goroutines and keeps no state; catalogue queries, expected spot
// prices, surcharges and residency are the caller's, who expresses them as
// candidates.
//
// # How it is solved
//
// Transfers depend on places alone, so candidates at one place compete by their
// own cost and time only (instance.go), and what is left is a network of tasks
// over places.
//
// Cost: options that transfers can never justify are dropped (dominate.go), the
// network falls apart into components, chains, trees and series-parallel parts
// are eliminated exactly (eliminate.go), message passing raises a lower bound
// and rules out values against the best plan so far (dual.go), what is narrow is
// finished by bucket elimination (bucket.go) and the rest by branch and bound
// (costsearch.go).
//
// Makespan: windows (windows.go) bound the earliest start and the least rest for
// each task and place; they are exact unless paths part and meet again, and
// branching settles the tasks at which they do (makespan.go).
//
// Cost within a deadline and makespan within a budget: a price on time along
// the paths turns both into one cost network (lagrange.go). Linear programming
// over the plans and paths seen so far finds the price (master.go), or for many
// tasks a multiplicative update (spreader.go). Series-parallel graphs are then
// finished by label setting over Pareto fronts (labels.go), others by branch and
// bound over options (bounded.go, boundedtree.go).
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
