// Package recordcache holds what is known of the store while a decision is made: records as they were loaded, and on
// top of them what the decision has written.
//
// A decision reads records through a Reader. A unit (package unit) loads missing records from the store. A Draft
// never uses the store: it notes what is missing and fails with ErrLacking. The caller then loads everything that was
// missing at once and repeats the decision. So a decision is pure even if it only finds out on the way what it has to
// read.
package recordcache
