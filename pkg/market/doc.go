// Package market knows what spot capacity has cost and whether it was to be
// had: price series of a market, traces of availability, and the two Markov
// chains that are learned from them. It follows "Workflow cost saver
// based on spot instances" (WCSSI), equations 4 and 5, for prices: hourly steps,
// levels, a matrix of transitions counted from history.
//
// It does no I/O beyond the readers and file systems that it is given, has no
// clock and no randomness, and knows nothing of jobs, bids or brokers. What to
// do about a price is pkg/bidding's.
//
// Prices are USD per hour of one machine, times are instants, steps are hours
// unless a name says otherwise.
package market
