// Package progress shows a job while it runs: as a live view that is repainted on a terminal, or as one line per change
// for everything else.
//
// Job collects the broker's updates and derives what happened in between. Live and Lines show it. View paints one
// moment of it and is a pure function of its input, which makes it testable. The package does not call the broker and
// does not decide what an interrupt means.
package progress
