// Package poolfit describes tasks and machines of pools as problems of pkg/placement and vectors of the scheduler. It
// also finds out which running tasks have to move or stop to make room for another task.
//
// It works on records alone: no store, no clock.
package poolfit
