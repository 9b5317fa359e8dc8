// Package policy holds ways to run one task by a deadline on spot capacity: ours,
// that of the paper, and those it is measured against. Each says in its doc
// comment where it comes from.
//
// There are two kinds of market, and so of policy. In a market with bids
// (Bidder) the price of each hour is found after the bid for it. In one without (Chooser) a
// machine is to be had or not, and can be taken away.
//
// Policies are pure: they know what has been seen so far, and decide.
package policy
