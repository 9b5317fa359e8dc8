// Package history learns from finished jobs how long their tasks run. The next job of the same name uses that: a task
// without a time in its file is planned with the observed time and its spread.
//
// The run times of a task are stored by its name and its kind of machine, as a lognormal distribution in which later
// runs have more weight. For accelerators on which the task never ran, the vendors' ratings state how much faster
// they are.
package history
