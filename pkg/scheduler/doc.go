// Package scheduler decides which tasks of many users' jobs run where and when, in the terms of Volcano. A [Snapshot]
// of nodes, queues and jobs is opened as a [Session]. A [Policy] names the actions that run one after the other
// (enqueue, allocate, preempt, reclaim, backfill, reserve) and, in tiers, the plugins that decide order, placement and
// victims. Closing the session returns a [Result]: tasks to bind and evict, room to keep, and changed jobs.
//
//	s, err := scheduler.Open(snapshot, policy)
//	s.Run()
//	result := s.Close()
//
// A plugin registers functions with the session: orders of queues, namespaces, jobs and tasks,
// predicates, scores of nodes, limits, readiness and victims ([Plugin]). A [Statement] collects
// the decisions for one job and commits or discards them as a whole, so that a gang starts
// completely or not at all. Allocated and pipelined tasks exist only within a session; the caller
// records binding, bound, running and releasing tasks.
//
// The package has no I/O, clock, randomness or goroutines: the same snapshot
// and policy give the same result. A session does not change its snapshot.
//
// The input is a [Snapshot] of nodes, queues, namespaces and jobs with the states of their tasks; amounts of resources
// are a [Vector] of integers. [ReadPolicy] reads a policy from YAML; its errors point to line and field. The format of
// the file is stable: fields and names are only added. Go names may change while the version is below 1.
//
// # Cost
//
// Tasks with the same request form a class. A class keeps the scores of all nodes in a
// tournament tree and updates only the nodes that changed since its last use, so
// placing a task costs the logarithm of the number of nodes. Queues, namespaces and jobs are
// in nested heaps; an allocation updates one path through them.
//
// The source is Huawei's account of Volcano (sections "common scheduling scenarios",
// "scheduling framework" and "implementation"); dominant resource fairness is Ghodsi et
// al., NSDI 2011.
package scheduler
