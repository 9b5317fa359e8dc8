// Package scheduler decides which tasks of many users' jobs run where and when,
// in the terms of Volcano: a [Snapshot] of nodes, queues and jobs is opened as
// a [Session], a [Policy] names the actions that run over it one after the other
// (enqueue, allocate, preempt, reclaim, backfill, reserve) and the plugins in
// tiers that tell them in which order, where, and at whose cost. Closing the session
// gives a [Result]: what to bind, evict, hold and change.
//
//	s, err := scheduler.Open(snapshot, policy)
//	s.Run()
//	result := s.Close()
//
// A plugin registers functions with the session: orders of queues, namespaces, jobs and tasks,
// predicates, scores of nodes, limits, readiness and victims ([Plugin]). A [Statement] holds
// what was decided for one job until it is known whether all of it can be: it commits or
// discards a gang as one. Tasks that are only allocated or pipelined exist in a session
// only; binding, bound, running and releasing ones are the caller's to record.
//
// It is a library without I/O, clock, randomness or goroutines: the same snapshot
// and policy give the same result. What it reads of a snapshot it does not change.
//
// What it is told is in package cluster, and how a policy is written in package
// policy; both have their names here too. Names may change with a version below 1.
//
// # Cost
//
// Tasks that ask for the same are one class. A class keeps the scores of all nodes in a
// tournament tree, brought up to date with the nodes that changed since it was asked last, so that a
// task costs the logarithm of the nodes; queues, namespaces and jobs wait in nested heaps,
// of which an allocation moves one path.
//
// The source is Huawei's account of Volcano (sections "common scheduling scenarios",
// "scheduling framework" and "implementation"); dominant resource fairness is Ghodsi et
// al., NSDI 2011.
package scheduler
