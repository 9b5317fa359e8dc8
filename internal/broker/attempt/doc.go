// Package attempt has the decisions of an attempt's life: the intent to buy and its outcome, hellos and reports of
// agents, notices, loss, leases, release. Each is a function of records and a moment. It returns the records to write
// and the events to emit as a record.Decision (load → decide → commit).
//
// It imports no store, no context and no clock.
package attempt
