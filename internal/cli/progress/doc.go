// Package progress shows a job while it runs: as a view that is painted over
// and over on a terminal, or as lines, one a change, for everything else.
//
// Job gathers what the broker tells and works out what happened in between;
// Live and Lines show it; View paints a moment of it and is a function of its
// input, which is how it is tested. The package neither calls the broker nor
// decides what an interrupt means.
package progress
