// Package parsync lets any number of schedulers share one cluster without a
// lock. The state of the cluster lies in P partitions; each of N < P schedulers
// keeps a view of all of them and refreshes one partition at a time, round robin, so
// that no two refresh the same one at the same moment (Rotation). A scheduler decides on
// its view and commits by conditional write, where a conflict is found and the task
// tried again.
//
// What a partition holds was last seen at different moments, and that is what the
// policies trade on (Policy): the freshest partition first, where hardly any
// other scheduler takes at the moment; the best slot first, however old the view
// of it; or the second until tasks wait too long, then the first.
//
// The source is Feng et al., "Scaling Large Production Clusters with Partitioned
// Synchronization", USENIX ATC 2021: §3 the model of conflicts (Model), §4 the
// partitions and policies, §5 the wind tunnel (package windtunnel).
//
// It is a library without I/O, clock or randomness of its own. What a slot is, and how
// it is committed, is the caller's: machines of a pool, vCPUs of a quota.
package parsync
