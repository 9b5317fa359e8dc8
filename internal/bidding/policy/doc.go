// Package policy holds policies that run one task on spot capacity by a deadline: our own, the paper's, and the
// baselines they are compared with. The doc comment of each names its source.
//
// There are two kinds of market, and so two kinds of policy. In a market with bids (Bidder), the price of each hour
// is known only after the bid for it. In a market without bids (Chooser), a machine is available or not and can be
// interrupted.
//
// Policies are pure: they decide from the observations so far.
package policy
