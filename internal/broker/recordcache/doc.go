// Package recordcache is what is known of the store while something is decided: records as they were loaded, under what the
// decision itself has written.
//
// Whoever decides reads through a Reader. A unit (package unit) asks the store for what it has not loaded. A Draft asks
// nobody: it notes what it lacks and fails with ErrLacking, so that a decision which finds out as it goes what it has
// to look at is pure all the same. Who runs it loads all that was lacking at once and has it decide again.
package recordcache
