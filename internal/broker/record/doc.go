// Package record is what the broker stores: the types of its records, their keys and limits, and what follows from one
// record alone, such as what a cluster has cost or whether a block covers an offer. A Decision is what a decide
// function wants written and told, with the verbs that all of them share.
//
// Nothing here reads or writes a store.
package record
