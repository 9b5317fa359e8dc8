package scheduler

// heap is a binary heap ordered by Compare; Items[0] is the first item.
type heap[T any] struct {
	Items   []T
	Compare func(a, b T) int
}

// Push adds an item.
func (h *heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	i := len(h.Items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h.Compare(h.Items[i], h.Items[parent]) >= 0 {
			return
		}
		h.Items[i], h.Items[parent] = h.Items[parent], h.Items[i]
		i = parent
	}
}

// Pop removes and returns the first item.
func (h *heap[T]) Pop() T {
	top := h.Items[0]
	last := len(h.Items) - 1
	h.Items[0] = h.Items[last]
	var none T
	h.Items[last] = none
	h.Items = h.Items[:last]
	h.Sink()
	return top
}

// Sink restores the order after the first item has become worse.
func (h *heap[T]) Sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h.Items) {
			return
		}
		if r := child + 1; r < len(h.Items) && h.Compare(h.Items[r], h.Items[child]) < 0 {
			child = r
		}
		if h.Compare(h.Items[i], h.Items[child]) <= 0 {
			return
		}
		h.Items[i], h.Items[child] = h.Items[child], h.Items[i]
		i = child
	}
}
