// Package history learns from jobs that have ended how long their tasks run, and tells it to the next job of the same
// name: where a file does not say how long a task takes, it is planned by what was seen, with its spread.
//
// What is learned of a task is kept by its name and by the kind of machine it ran on, as a lognormal distribution in
// which later runs count for more. Of accelerators that it never ran on, the vendors' figures say how much faster they
// are.
package history
