// Package story is what a user does with a deployment on a played account (package account), step by step, and what is
// found out on the way: who is let in, what was counted for the bill beside what was foretold, and what is there to
// look at when a step does not hold.
package story
