// Package bid decides what an hour of a machine is worth to a task: the maximum price of a spot machine, when to
// leave it, and when a task that waits for a better price starts. Package bidding has the Markov model, which follows
// the paper on bidding for workflows on spot instances.
package bid
