package timeline

import "time"

// timer is a future event.
type timer struct {
	at     time.Duration // since the beginning
	serial uint64        // order of timers at the same time
	f      func()
}

func (t *timer) before(other *timer) bool {
	return t.at < other.at || t.at == other.at && t.serial < other.serial
}

// timers is a heap with four children per item. The first item is the next timer. Every step uses the heap. With
// values of a fixed type, it takes half the time of container/heap.
type timers []timer

const below = 4

// add adds a timer.
func (t *timers) add(one timer) {
	*t = append(*t, one)
	heap, i := *t, len(*t)-1
	for i > 0 {
		above := (i - 1) / below
		if !one.before(&heap[above]) {
			break
		}
		heap[i], i = heap[above], above
	}
	heap[i] = one
}

// next removes and returns the first timer.
func (t *timers) next() timer {
	heap, last := *t, len(*t)-1
	first, one := heap[0], heap[last]
	heap[last] = timer{}
	heap = heap[:last]
	*t = heap
	for i := 0; last > 0; {
		least := i*below + 1
		if least >= last {
			heap[i] = one
			break
		}
		for k := least + 1; k < min(least+below, last); k++ {
			if heap[k].before(&heap[least]) {
				least = k
			}
		}
		if !heap[least].before(&one) {
			heap[i] = one
			break
		}
		heap[i], i = heap[least], least
	}
	return first
}
