package scheduler

import "github.com/tradewind-broker/tradewind/pkg/scheduler/cluster"

//nolint:revive // documented in package cluster
type (
	Snapshot    = cluster.Snapshot
	Node        = cluster.Node
	Taint       = cluster.Taint
	Queue       = cluster.Queue
	Namespace   = cluster.Namespace
	Job         = cluster.Job
	Role        = cluster.Role
	Dependency  = cluster.Dependency
	Closeness   = cluster.Closeness
	Task        = cluster.Task
	Spec        = cluster.Spec
	Pair        = cluster.Pair
	Toleration  = cluster.Toleration
	Operator    = cluster.Operator
	Term        = cluster.Term
	Reservation = cluster.Reservation

	Vector = cluster.Vector
	Limit  = cluster.Limit
	Usage  = cluster.Usage

	State    = cluster.State
	Phase    = cluster.Phase
	Reaction = cluster.Reaction
)

// Limits and units of vectors, documented in package cluster.
const (
	MaxResources = cluster.MaxResources
	Whole        = cluster.Whole
)

// States, phases, reactions and operators, documented in package cluster.
const (
	Pending   = cluster.Pending
	Allocated = cluster.Allocated
	Pipelined = cluster.Pipelined
	Binding   = cluster.Binding
	Bound     = cluster.Bound
	Releasing = cluster.Releasing
	Running   = cluster.Running
	Succeeded = cluster.Succeeded
	Failed    = cluster.Failed
	Unknown   = cluster.Unknown

	Waiting  = cluster.Waiting
	Inqueue  = cluster.Inqueue
	Started  = cluster.Started
	Finished = cluster.Finished
	Aborted  = cluster.Aborted

	Ignore  = cluster.Ignore
	Restart = cluster.Restart
	Abort   = cluster.Abort

	In      = cluster.In
	NotIn   = cluster.NotIn
	Exists  = cluster.Exists
	Missing = cluster.Missing
)

// LimitOf returns a limit of amount for each of the first n resources.
func LimitOf(amount Vector, n int) Limit { return cluster.LimitOf(amount, n) }
