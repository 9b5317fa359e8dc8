// Package check has the invariants of a simulated world. A [Checker] receives each committed transaction, and the real
// events (a launch, a task handed to an agent, a machine's end), and compares the two after each step. At the end it
// checks that nothing remains. It does not know how decisions are made, only the invariants that they must keep;
// check.go lists these.
package check
