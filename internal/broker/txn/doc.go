// Package txn has the transaction. It loads records, lets the caller decide on them, and commits the decision if none
// of the records has changed since. A unit sees its own writes, so several events can share one transaction.
package txn
