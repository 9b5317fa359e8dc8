// Package check has the invariants of a simulated world. A [Checker] is told of
// each transaction as it was committed, and of what really happens (a launch, a
// task handed to an agent, a machine's end), and compares the two after each step;
// at the end it looks at what is left over. It knows nothing of how a decision is
// made, only what must be true of it: check.go lists what.
package check
