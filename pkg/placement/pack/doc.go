// Package pack puts the instances of a placement problem on as few machines as
// it can in the time it has (paper, section II: resource efficiency is to use the fewest
// machines). It is for whole fleets planned at once; to place what comes and goes on
// machines in use, see package placement.
//
// # How it searches
//
// All instances are placed afresh, and every assignment on the way keeps every
// constraint. Machines are levelled: the energy of an assignment is the sum over machines and features
// (means of stretches of the curves) of the squared fill, those features counting most that are
// scarce in the whole fleet. Where energy is least, all machines look like the fleet's average, peaks
// of one instance lie in valleys of another, and what room there is fits many.
//
//  1. construct.go: on a few per cent more machines than the lower bound, the apps
//     that are hardest to place first, each instance where it raises the energy least. What is left over goes on
//     more machines: the first assignment.
//  2. search.go: some machines are emptied, and what was on them is placed again. If all is, that
//     is the new best; else fewer are tried.
//  3. eject.go: an instance that finds no room takes the place of others that are easier to place,
//     which wait in its stead (an ejection pool).
//  4. level.go: meanwhile random pairs of machines exchange instances where that lowers the energy.
//
// # How it is fast
//
// Demands are vectors of 32-bit integers in which the points that fill up first
// stand in front, one for each stretch of each curve: what does not fit is seen after few of
// about 200 points. Scores need a few dozen means only. What is on a machine is counted in a small
// hash table, so that a rule costs one look.
//
// # Exactness
//
// Numbers become integers without loss where they fit 32 bits in the finest unit in
// use; else demands are rounded up and capacities down. Demands that binary fractions cannot express count as a
// millionth more than they are, so that whoever adds them up as floats finds the same. If the search ends before its
// time with instances left over or more machines than the lower bound, it is made again to the last part, and that
// counts if it is better.
//
// The same problem, seed and number of steps give the same assignment. The package
// reads no clock: its caller's Stop does.
package pack
