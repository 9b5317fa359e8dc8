// Package planner is the planner of simulated worlds: small enough that what it
// promises of deadlines can be checked ([Guarantee]).
package planner
