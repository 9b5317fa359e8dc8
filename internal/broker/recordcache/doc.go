// Package recordcache has the known part of the store during a decision: records as they were loaded, and the changes
// by the decision.
//
// A decision reads records through a Reader. A unit (package txn) loads missing records from the store. A Draft never
// uses the store: it notes missing records and fails with ErrMissing. The caller then loads all missing records at
// once and repeats the decision. So a decision is pure even if it learns only during its run which records it has to
// read.
package recordcache
