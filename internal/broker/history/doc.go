// Package history learns from finished jobs how long their tasks run, and uses that for the next job of the same
// name: a task without a time in the file is planned with the observed time and its spread.
//
// What is learned about a task is stored by its name and the kind of machine it ran on, as a lognormal distribution
// in which later runs weigh more. For accelerators that it never ran on, the vendors' figures tell how much faster
// they are.
package history
