// Package placement puts containers on machines that are already there: the
// user's own, reserved or still warm ones. It follows Aladdin (Optimized Maximum
// Flow Management for Shared Production Clusters): a flow network over aggregated
// vertices whose capacities are vectors with a blacklist for each machine, weights
// that let no number of lower-priority flows outweigh a higher one, preemption
// and migration.
//
// A [Problem] is machines, apps and their instances; an [Assignment] says on
// which machine each instance is. [New] makes a [Network] of a problem, which
// [Network.Solve] fills and which stands changes: machines and instances come and
// go, and the next Solve searches for what is not placed only. [Verify] checks
// any assignment by itself and shares no code with those who make one;
// [LowerBound] says how many machines no assignment can do without.
//
// Sub-packages: tianchi reads and writes the form of the Alibaba scheduling
// contest and makes the paper's setting; pack needs as few machines as it can in
// the time it has; baseline has what the paper compares with.
//
// The package does no I/O, reads no clock, starts no goroutines and draws no
// random number without a seed.
//
// # Units
//
// A demand or a capacity is a vector over the points of all resources, in
// billionths ([Unit]) of the unit that the resource is counted in, so that sums are
// exact. A resource with more than one point is a curve over time: CPU and memory
// through a day. It is kept only if it is at each point.
package placement
