// Package bid decides what an hour of a machine is worth to a task: the maximum price of a spot machine, when to leave
// it, and when a task that may wait for a better price starts (package bidding has the Markov model, after the paper on
// bidding for workflows on spot instances).
package bid
