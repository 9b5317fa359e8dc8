package pack

// construct places instances on the open machines, largest apps first, each where it raises the energy least, so that
// all machines stay level. Instances that do not fit go to the pool. Once stopped returns true, all others go there,
// too.
func (s *state) construct(stopped func() bool) {
	q := &queue{}
	for _, a := range s.ordered {
		if stopped() {
			s.pool = append(s.pool, s.instancesOf[a]...)
			continue
		}
		q.reset()
		for k := range s.open {
			q.push(s.rise(int32(k), a), int32(k)) //nolint:gosec // machines in memory
		}
		q.order()
		for _, i := range s.instancesOf[a] {
			for q.len() > 0 && !s.fits(q.least(), a) {
				q.drop() // machines only fill up, so it will not fit here later either
			}
			if q.len() == 0 {
				s.pool = append(s.pool, i)
				continue
			}
			k := q.least()
			s.add(k, i)
			q.raise(s.rise(k, a))
		}
	}
}

// queue is a heap of machines by how much an instance would raise their energy.
type queue struct {
	value   []float32
	machine []int32
}

func (q *queue) len() int     { return len(q.value) }
func (q *queue) least() int32 { return q.machine[0] }

func (q *queue) reset() {
	q.value, q.machine = q.value[:0], q.machine[:0]
}

// push adds an entry without restoring the heap order.
func (q *queue) push(v float32, k int32) {
	q.value, q.machine = append(q.value, v), append(q.machine, k)
}

func (q *queue) order() {
	for i := len(q.value)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) drop() {
	n := len(q.value) - 1
	q.value[0], q.machine[0] = q.value[n], q.machine[n]
	q.value, q.machine = q.value[:n], q.machine[:n]
	q.down(0)
}

// raise gives the first entry a new, higher value.
func (q *queue) raise(v float32) {
	q.value[0] = v
	q.down(0)
}

func (q *queue) less(i, j int) bool {
	return q.value[i] < q.value[j] || q.value[i] == q.value[j] && q.machine[i] < q.machine[j]
}

func (q *queue) down(i int) {
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
