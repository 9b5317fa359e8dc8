// Package backtest replays recorded markets under policies (pkg/bidding/policy),
// beside the clairvoyant optimum, and says what each would have cost.
//
// Three experiments: Bid replays one task on recorded spot prices, with the
// paper's accounting (WCSSI, assumptions 1 to 5: the price changes once an hour, hours are
// billed whole at the price they begin with, a bid at or above it gets a machine, work is saved at the end of each
// hour). Availability replays one task on traces of whether a machine was to be had, billed by time. Workflow replays
// a DAG.
//
// A policy sees what was known at the time: never the price of an hour before its bid for it, never what comes later.
// The clairvoyant sees everything and pays by the same rules.
//
// The same input gives the same output; what is drawn at random is drawn from the seed.
package backtest
