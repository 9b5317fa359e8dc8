// Package market holds spot price histories and availability traces, and learns two Markov chains from them: one of
// prices and one of availability. The price chain follows "Workflow cost saver based on spot instances" (WCSSI),
// equations 4 and 5: hourly steps, price levels, and a transition matrix counted from history.
//
// The package does no I/O except through the readers and file systems that the caller passes in. It uses no clock and
// no random source, and it does not know jobs, bids or brokers. Package bidding decides what to do about a price.
//
// Prices are USD per hour of one machine, times are instants, and steps are hours unless a name says otherwise.
package market
