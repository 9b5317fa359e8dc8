package aws

import "iter"

// maxBatch is how many entries every batch call of EventBridge and SQS takes.
const maxBatch = 10

// batches splits items in their order into pieces of at most maxBatch items and maxCall bytes. An item over maxCall is
// a piece of its own.
func batches[T any](items []T, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(items) > 0 {
			n, bytes := 0, 0
			for n < len(items) && n < maxBatch {
				s := size(items[n])
				if n > 0 && bytes+s > maxCall {
					break
				}
				bytes += s
				n++
			}
			if !yield(items[:n:n]) {
				return
			}
			items = items[n:]
		}
	}
}
