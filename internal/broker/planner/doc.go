// Package planner turns a job into the optimizer's model, and the optimizer's solution into the broker's plan. The
// model combines the catalogue, the observations of markets, and the expected cost and time of spot runs (paper,
// section Optimizer: labels become feasible clusters, clusters are annotated with cost and time, an assignment is
// solved for).
//
// A plan is a function of its input, without a clock or randomness.
package planner
