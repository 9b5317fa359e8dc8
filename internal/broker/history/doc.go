// Package history learns from finished jobs how long their tasks run, and uses that for the next job of the same
// name: a task without a time in the file is planned with the observed time and its spread.
//
// The run times of a task are stored by its name and its kind of machine, as a lognormal distribution in which later
// runs weigh more. For accelerators that it never ran on, the vendors' figures tell how much faster they are.
package history
