// Package baseline places problems as those do that Aladdin is compared with:
// first-fit and best-fit decreasing, a greedy that fills one machine at a time by
// dot product, a plain min-cost flow in rounds after Firmament, and a greedy after
// Medea that weighs broken rules against machines.
//
// They are here to be measured beside pkg/placement, not to be used: Medea breaks
// rules by design and Firmament gives up on what keeps clashing.
package baseline
