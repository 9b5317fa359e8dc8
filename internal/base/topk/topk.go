// Package topk keeps the first few of many values in an order, without sorting them all.
package topk

import "slices"

// Insert adds a value to the first k of an order, and returns them. top holds these values, sorted by compare. Among
// equal values, those that were added first come first, and are kept.
func Insert[T any](top []T, value T, k int, compare func(a, b T) int) []T {
	if len(top) >= k && (k <= 0 || compare(value, top[k-1]) >= 0) {
		return top
	}
	at, _ := slices.BinarySearchFunc(top, value, func(have, value T) int {
		if compare(have, value) <= 0 {
			return -1
		}
		return 1
	})
	if len(top) == k {
		top = top[:k-1]
	}
	return slices.Insert(top, at, value)
}
