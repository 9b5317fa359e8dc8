// Package record defines the broker's records: their types, keys and limits, and facts that follow from one record
// alone, such as the cost of a cluster or whether a block covers an offer. A Decision is the result of a decide
// function. It has the methods that all decide functions share.
//
// Nothing in this package reads or writes a store.
package record
