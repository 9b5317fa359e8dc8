// Package cluster is what a session of package scheduler is told of the world: a
// [Snapshot] of nodes, queues, namespaces and jobs with their tasks, where each is
// in its life, and amounts of resources as a [Vector] of whole numbers.
//
// It is data with the arithmetic that belongs to it, and decides nothing. Package
// scheduler has the same names, so that most callers import it alone. Fields are
// only added.
package cluster
