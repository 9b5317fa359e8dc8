// Package planner is the planner of simulated worlds. It is simple, so that its promises about deadlines can be
// checked ([Guarantee]).
package planner
