// Package placement puts containers on existing machines: the user's machines, reserved ones, and warm ones. It
// follows Aladdin (Optimized Maximum Flow Management for Shared Production Clusters): a flow network over aggregated
// vertices, whose capacities are vectors with a blacklist for each machine; weights with which no number of
// lower-priority flows outweighs a higher one; preemption; and migration.
//
// A [Problem] has machines, apps and their instances. An [Assignment] is the machine of each instance. [New] makes a
// [Network] from a problem, and [Network.Solve] fills it. The network supports changes: instances can be removed, and
// the next Solve searches only for the instances that are not placed. [Verify] checks any assignment and shares no
// code with the solvers. [LowerBound] returns a number of machines that every complete assignment needs.
//
// Sub-packages: tianchi reads and writes the format of the Alibaba scheduling contest and generates the paper's
// setting; pack minimises the number of machines within a time limit; baseline has the methods that the paper
// compares with.
//
// The package uses no I/O, clock or goroutines, and only seeded random numbers.
//
// # Units
//
// A demand or a capacity is a vector over the points of all resources, in billionths ([Unit]) of the resource's unit,
// so that sums are exact. A resource with more than one point is a curve over time, such as CPU and memory over a
// day. An assignment must respect the capacity at each point.
package placement
