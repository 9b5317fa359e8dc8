// Package timeline has the virtual time of a simulated world, a heap of future
// events, the history of past ones with the violation that ended it, and random
// sources made from the seed. One seed is one history, to the byte.
package timeline
