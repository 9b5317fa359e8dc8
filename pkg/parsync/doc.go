// Package parsync lets any number of schedulers share one cluster without a lock. The state of the cluster is divided
// into P partitions. Each of N < P schedulers keeps a view of all of them and refreshes one partition at a time,
// round robin, so that no two schedulers refresh the same one at the same time (Rotation). A scheduler decides with
// its view and commits by conditional write. A write that conflicts fails, and the task is tried again.
//
// The partitions of a view have different ages, and the policies use this differently (Policy): take from the
// freshest partition, where hardly any other scheduler takes slots at the moment; take the best slot, however old the
// view of it is; or do the second until tasks wait too long, then the first.
//
// The source is Feng et al., "Scaling Large Production Clusters with Partitioned Synchronization", USENIX ATC 2021:
// §3 describes the model of conflicts (Model), §4 the partitions and policies, §5 the wind tunnel (package
// windtunnel).
//
// The library uses no I/O, clock or random source. The caller defines slots and how they are committed: a slot is, for
// example, a machine of a pool or a vCPU of a quota.
package parsync
