// Package workflow runs a DAG on the spot markets of a zone by a deadline. It decides the machine type, the latest
// finish and the bid of each task.
//
// BFRC is the paper's method (WCSSI, algorithm 1 and section 3): it distributes the time before the run, in five
// steps, adjusts it when tasks begin, and each task bids separately. Our own method (Markov) divides the time in every
// hour so that the rest is expected to cost the least, and decides which type each task uses. AIB (Poola et al.) is the
// baseline for both.
//
// The model has continuous time, prices that change once an hour, and a separate machine for every task. The
// back-tests run it on recorded prices.
package workflow
