package energy

// Queue is a heap of machines by how much an instance would raise their energy. The zero value is empty.
type Queue struct {
	value   []float32
	machine []int32
}

// Len is the number of entries.
func (q *Queue) Len() int { return len(q.value) }

// Least is the machine with the least value.
func (q *Queue) Least() int32 { return q.machine[0] }

// Reset removes all entries.
func (q *Queue) Reset() {
	q.value, q.machine = q.value[:0], q.machine[:0]
}

// Push adds an entry without restoring the heap order.
func (q *Queue) Push(v float32, k int32) {
	q.value, q.machine = append(q.value, v), append(q.machine, k)
}

// Order restores the heap order.
func (q *Queue) Order() {
	for i := len(q.value)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// Drop removes the first entry.
func (q *Queue) Drop() {
	n := len(q.value) - 1
	q.value[0], q.machine[0] = q.value[n], q.machine[n]
	q.value, q.machine = q.value[:n], q.machine[:n]
	q.down(0)
}

// Raise gives the first entry a new, higher value.
func (q *Queue) Raise(v float32) {
	q.value[0] = v
	q.down(0)
}

func (q *Queue) less(i, j int) bool {
	return q.value[i] < q.value[j] || q.value[i] == q.value[j] && q.machine[i] < q.machine[j]
}

func (q *Queue) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(q.value) {
			return
		}
		if c+1 < len(q.value) && q.less(c+1, c) {
			c++
		}
		if !q.less(c, i) {
			return
		}
		q.value[i], q.value[c] = q.value[c], q.value[i]
		q.machine[i], q.machine[c] = q.machine[c], q.machine[i]
		i = c
	}
}
