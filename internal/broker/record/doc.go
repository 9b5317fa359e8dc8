// Package record defines the broker's records: their types, keys and limits, and the facts that follow from one record
// alone, such as the cost of a cluster or whether a block covers an offer. A Decision is the result of a decide
// function, with the methods that all of them share.
//
// Nothing here reads or writes a store.
package record
