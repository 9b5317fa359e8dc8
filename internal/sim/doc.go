// Package sim runs the broker's own handlers under virtual time, in a world that
// is hostile and yet exactly repeatable: one seed is one history, to the byte.
//
// A world is a clock, a heap of what happens next, and random sources made from
// the seed. Handlers run as processes, coroutines of which one at a time has
// control. At each thing a handler asks of the outside (the store, the bus, a
// cloud, the planner) it may be overtaken by others, slowed, given an error, told
// of a failure that was none, or killed before or after. The clouds have zones
// that run dry, quotas, outages, launches that hang or succeed unseen, lists that
// lag, and spot machines that are taken with or without a warning; the agents run
// tasks, save checkpoints and report over a network that loses and delays.
//
// After each step the invariants are checked against what was committed and what
// the world knows to be true: what runs where, what it costs, what has finished.
// At the end the faults stop, and everything must come to rest with nothing left over.
// Package check below has the invariants, weather what comes and goes by itself, timeline the clock, planner the
// worlds' own planner; here are the broker's hosts and ports, the clouds, machines, agents and users.
//
// The method is that of FoundationDB's simulation and of TigerBeetle's VOPR. What a
// world is like (which faults, how often) is drawn from the seed as well, so that some
// histories have many faults of one kind and none of others.
//
// The package is not a model of the broker: it knows nothing of how a decision
// is made, only what must be true of it. It does not measure performance.
package sim
