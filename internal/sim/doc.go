// Package sim runs the broker's own handlers under virtual time, in a world that is hostile and exactly repeatable:
// one seed is one history, to the byte.
//
// A world is a clock, a heap of future events, and random sources made from the seed. Handlers run as processes:
// coroutines, one of which has control at a time. Whenever a handler uses the outside (the store, the bus, a cloud,
// the planner), other processes may run before it. The call may be slow, may fail, or may report a failure although
// it succeeded, and the process may be killed before or after it. The clouds have zones that run out of capacity,
// quotas, outages, launches that hang or succeed unseen, lists that lag, and spot machines that are taken with or
// without a warning. Worlds with managed services also have late and lost places. The agents run tasks, save
// checkpoints and report over a network that loses and delays messages.
//
// After each step, the invariants compare the commits with the true state of the world: where tasks run, what they
// cost, which have finished. At the end the faults stop, and everything must come to rest with nothing left.
// Sub-package check has the invariants, weather the faults and prices, timeline the clock, planner the worlds'
// planner. This package has the broker's hosts and ports, the clouds, services, machines, agents and users.
//
// The method is that of FoundationDB's simulation and of TigerBeetle's VOPR. The seed also determines the faults of a
// world (which, how often), so that some histories have many faults of one kind and none of others.
//
// The package is not a model of the broker: it does not know how decisions are made, only the invariants that they
// must keep. It does not measure performance.
package sim
