// Package attempt has the decisions of an attempt's life: the intent to buy and its outcome, hellos and reports of
// agents, notices, loss, leases, release. Each is a function of records and a moment, and returns what to write and
// emit as a record.Decision (load → decide → commit).
//
// It imports neither store nor context nor clock.
package attempt
