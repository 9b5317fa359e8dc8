// Package workflow runs a DAG on the spot markets of a zone by a deadline: which
// type of machine each task gets, until when it has to be done, and what is bid for it.
//
// BFRC is the paper's method (WCSSI, algorithm 1 and section 3): times are
// distributed before the run, in five steps, and each task bids on its own. Ours (Markov) decides again
// each hour, with the prices of all types. AIB (Poola et al.) is what both are measured against.
//
// It is a model in which time is continuous, prices change once an hour and every task has a machine of its own; the
// back-tests run it on recorded prices.
package workflow
