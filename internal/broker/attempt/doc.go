// Package attempt has the decisions about an attempt: the intent to buy and its outcome, hellos and reports of
// agents, notices, loss, leases, release. Each decision is a function of records and a time. It returns the records
// to write and the events to emit as a record.Decision (load → decide → commit).
//
// The package imports no store, no context and no clock.
package attempt
