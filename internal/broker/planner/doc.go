// Package planner turns a job and the world into the optimizer's model, and the
// optimizer's answer into the broker's plan. It is where the catalogue, what
// was learned of markets, the expectation of spot runs and the exact optimizer
// meet (paper, section Optimizer: labels become feasible clusters, clusters are
// annotated with cost and time, an assignment is solved for).
//
// A plan is a function of its input: no clock, no randomness.
package planner
