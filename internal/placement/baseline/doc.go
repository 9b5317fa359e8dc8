// Package baseline has the placement methods that Aladdin is compared with: first-fit and best-fit decreasing, a
// greedy method that fills one machine at a time by dot product, a plain min-cost flow in rounds after Firmament, and
// a greedy method after Medea that weighs broken rules against machines.
//
// They are only for comparison with package placement: Medea breaks rules by design, and Firmament gives up on
// instances that keep clashing.
package baseline
