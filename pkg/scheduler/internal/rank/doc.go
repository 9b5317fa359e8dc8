// Package rank has the two structures by which a session finds what comes first
// without looking at everything again: a heap of whose first item alone the rank
// changes, and a tournament over scores of which any may change.
package rank
