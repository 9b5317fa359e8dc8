// Package unit is the transaction: it loads records, has something decided on them, and commits what was decided on the
// condition that nothing of it has changed. It sees its own writes, so that several events share one transaction.
package unit
