package scheduler

// heap is a binary heap by compare: items[0] is the first.
type heap[T any] struct {
	items   []T
	compare func(a, b T) int
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h.compare(h.items[i], h.items[parent]) >= 0 {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	top := h.items[0]
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	h.sink()
	return top
}

// sink moves the first item, which may have become worse, to where it belongs.
func (h *heap[T]) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if r := child + 1; r < len(h.items) && h.compare(h.items[r], h.items[child]) < 0 {
			child = r
		}
		if h.compare(h.items[i], h.items[child]) <= 0 {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
