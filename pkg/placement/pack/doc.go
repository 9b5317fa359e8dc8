// Package pack puts the instances of a placement problem on as few machines as it can within a limit of time or steps
// (paper, section II: resource efficiency means using the fewest machines). It is for planning a whole fleet at once.
// To place instances that come and go on machines in use, see package placement.
//
// # How it searches
//
// All instances are placed from scratch, and every intermediate assignment respects every constraint. The search
// levels the machines: the energy of an assignment is the sum over machines and features (means of stretches of the
// curves) of the squared fill, weighted towards features that are scarce in the whole fleet. At minimum energy all
// machines look like the fleet's average, peaks of one instance are in valleys of another, and the free room fits
// many instances.
//
//  1. construct.go: use a few per cent more machines than the lower bound. Place the apps that are hardest to place
//     first, each instance where it raises the energy least. The rest goes to additional machines. This is the first
//     assignment.
//  2. search.go: empty some machines and place their instances again. If all fit, that is the new best; otherwise
//     empty fewer machines.
//  3. eject.go: an instance without room replaces others that are easier to place and that then wait (an ejection
//     pool).
//  4. level.go: meanwhile, random pairs of machines exchange instances if that lowers the energy.
//
// # Why it is fast
//
// Demands are vectors of 32-bit integers. The points that fill up first are at the front, one for each stretch of
// each curve, so most misfits are detected after a few of about 200 points. Scores need only a few dozen means. The
// instances on a machine are counted in a small hash table, so checking a rule takes one lookup.
//
// # Exactness
//
// Numbers are converted to integers without loss if they fit 32 bits in the finest unit in use; otherwise demands are
// rounded up and capacities down. Demands without an exact binary fraction are increased by a millionth, so that a
// check that adds them as floats also finds no overload. If the search ends before its limit with instances left over
// or more machines than the lower bound, it runs again without this margin, and the second result is used if it is
// better.
//
// The same problem, seed and number of steps give the same assignment. The package uses no clock; the caller's Stop
// may.
package pack
