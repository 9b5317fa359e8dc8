package aws

import "iter"

// maxBatch is the maximum number of entries of a batch call of EventBridge and SQS.
const maxBatch = 10

// batches splits items, in order, into batches of at most maxBatch items and maxCall bytes. An item larger than maxCall
// is a batch of one.
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
