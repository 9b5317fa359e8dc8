// Package backtest replays recorded markets under policies (package policy) and under the clairvoyant optimum, and
// reports the cost of each.
//
// There are three experiments. Bid replays one task on recorded spot prices with the paper's accounting (WCSSI,
// assumptions 1 to 5): the price changes once an hour, whole hours are billed at the price they begin with, a bid at
// or above the price gets a machine, and work is saved at the end of each hour. Availability replays one task on
// availability traces, billed by time. Workflow replays a DAG.
//
// A policy sees only the past: never the price of an hour before its bid for it, and nothing later. The clairvoyant
// sees everything and pays by the same rules.
//
// The same input gives the same output. Random numbers come from the seed.
package backtest
