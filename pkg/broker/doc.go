// Package broker is the product's core: the functions that react to events.
//
// Every function is load → decide → commit. A unit loads the records that an
// event concerns, a decide function (pure: records, event, now) says what to
// write and what to emit, and the unit commits both in one transaction that is
// conditional on the versions loaded and carries a marker, so that a second
// delivery of the same event changes nothing. On a conflict all of it is done
// again. Emitted events lie in the store's outbox until the relay publishes them.
//
// Only provision, execute, interrupt and reconcile reach outside. They commit
// what they intend first, act under an idempotency token (the cluster's name),
// then commit the outcome; reconcile finds and finishes what a crash left
// between.
//
// The package knows nothing of where it runs: Lambda, one process or the
// simulator. Clocks, stores, clouds and the planner are handed in.
//
// The architecture is the intercloud-broker paper's (section Architecture):
// catalogue and tracker feed the optimizer, the provisioner fails over through
// it, the executor runs the tasks.
package broker
