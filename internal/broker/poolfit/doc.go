// Package poolfit describes tasks and machines of pools as problems of pkg/placement and as vectors of the scheduler.
// It also finds the running tasks that have to move or stop to make room for another task.
//
// It works only on records, without a store or a clock.
package poolfit
