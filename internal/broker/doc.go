// Package broker is the product's core: the functions that react to events.
//
// Every function is load → decide → commit. A unit loads the records that an event needs. A decide function (pure:
// records, event, now) returns what to write and what to emit. The unit commits both in one transaction, which is
// conditional on the loaded versions and writes a marker, so a second delivery of the same event changes nothing. On a
// conflict all of this is repeated. Emitted events stay in the store's outbox until the relay publishes them.
//
// Only provision, execute, interrupt and reconcile make external calls. They commit their intent first, act under an
// idempotency token (the cluster's name), then commit the outcome. Reconcile finds and finishes what a crash
// interrupted.
//
// The package does not depend on where it runs: Lambda, one process or the simulator. The host passes in the clock, the
// store, the clouds and the planner.
//
// The architecture is the intercloud-broker paper's (section Architecture): catalogue and tracker feed the optimizer,
// the provisioner fails over through the optimizer, the executor runs the tasks.
package broker
