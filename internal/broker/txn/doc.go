// Package txn is the transaction: it loads records, lets the caller decide on them, and commits the decision if none
// of the records has changed since. A unit sees its own writes, so several events can share one transaction.
package txn
