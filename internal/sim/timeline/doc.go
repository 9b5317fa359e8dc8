// Package timeline is what happens when in a simulated world: virtual time, a heap
// of what is yet to happen, the history of what has, with the violation that ended
// it, and random sources made from the seed. One seed is one history, to the byte.
package timeline
