// Package attempt has the decisions of an attempt's life: the intent to buy, what came of it, hellos and reports of
// agents, notices, loss, leases, release. Each is a function of records and a moment; what it wants written and told it
// returns as a record.Decision (load → decide → commit).
//
// It imports neither store nor context nor clock.
package attempt
