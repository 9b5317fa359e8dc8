// Package cluster defines the input of a session of package scheduler: a [Snapshot]
// of nodes, queues, namespaces and jobs with the states of their tasks, and amounts
// of resources as a [Vector] of integers.
//
// It is data with its arithmetic and decides nothing. Package scheduler has aliases
// for all names, so most callers import only that. Fields are only ever added.
package cluster
