// Package record defines what the broker stores: the types of its records, their keys and limits, and what follows
// from one record alone, such as the cost of a cluster or whether a block covers an offer. A Decision is what a
// decide function wants to write and emit, with the methods that all of them share.
//
// Nothing here reads or writes a store.
package record
