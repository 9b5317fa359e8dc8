package parsync

import "math/bits"

// View has the slots that one scheduler believes to be free, by partition and grade; grade 0 is the best. The caller
// assigns numbers to slots, such as machines or units of quota. Use NewView to create one.
//
// A slot is removed from the view when the scheduler tries it, so a conflicting slot is not tried again before the
// partition is refreshed.
type View struct {
	grades     int
	partitions int
	words      int       // length of a bitmap over partitions
	free       [][]int32 // by partition·grades + grade
	has        []uint64  // by grade·words: partitions with a free slot of the grade
	any        []uint64  // partitions with a free slot of any grade
	count      int
	fresh      int // the most recently refreshed partition
}

// NewView returns an empty view.
func NewView(partitions, grades int) *View {
	words := (partitions + 63) / 64
	return &View{
		grades: grades, partitions: partitions, words: words,
		free: make([][]int32, partitions*grades), has: make([]uint64, grades*words), any: make([]uint64, words),
	}
}

// Refresh replaces the view of a partition: free[g] are the free slots of grade g, which are copied. The partition is
// then the freshest. The caller must refresh partitions in cyclic order.
func (v *View) Refresh(partition int, free [][]int32) {
	v.fresh = partition
	for g := range v.grades {
		at := partition*v.grades + g
		v.count += len(free[g]) - len(v.free[at])
		v.free[at] = append(v.free[at][:0], free[g]...)
		v.mark(partition, g)
	}
}

// Take removes a slot from the view and returns it. prefer is LatencyFirst or QualityFirst. choose(n) picks one of n
// slots in the same partition and grade; it must return a number below n. ok is false if nothing is free.
func (v *View) Take(prefer Policy, choose func(n int) int) (slot int32, ok bool) {
	if v.count == 0 {
		return 0, false
	}
	var partition, grade int
	if prefer == LatencyFirst {
		partition = v.freshest(v.any)
		for grade = 0; len(v.free[partition*v.grades+grade]) == 0; grade++ { //nolint:revive // counts
		}
	} else {
		for grade = 0; ; grade++ {
			if partition = v.freshest(v.has[grade*v.words : (grade+1)*v.words]); partition >= 0 {
				break
			}
		}
	}
	return v.remove(partition, grade, choose(len(v.free[partition*v.grades+grade]))), true
}

// Sample removes and returns the best of several slots drawn at random from the whole view, regardless of its age. It
// keeps schedulers with equal views from choosing the same slot. It takes time in proportion to partitions times
// grades.
func (v *View) Sample(candidates int, choose func(n int) int) (slot int32, ok bool) {
	if v.count == 0 {
		return 0, false
	}
	partition, grade, index := 0, v.grades, 0
	for range candidates {
		i, at := choose(v.count), 0
		for ; i >= len(v.free[at]); at++ {
			i -= len(v.free[at])
		}
		if g := at % v.grades; g < grade {
			partition, grade, index = at/v.grades, g, i
		}
	}
	return v.remove(partition, grade, index), true
}

// remove removes a slot from its list and returns it.
func (v *View) remove(partition, grade, i int) int32 {
	at := partition*v.grades + grade
	list := v.free[at]
	last := len(list) - 1
	slot := list[i]
	list[i] = list[last]
	v.free[at] = list[:last]
	v.count--
	if last == 0 {
		v.mark(partition, grade)
	}
	return slot
}

// mark updates the bitmaps: whether a partition has slots of a grade, and of any grade.
func (v *View) mark(partition, grade int) {
	word, bit := partition/64, uint64(1)<<(partition%64)
	if len(v.free[partition*v.grades+grade]) > 0 {
		v.has[grade*v.words+word] |= bit
		v.any[word] |= bit
		return
	}
	v.has[grade*v.words+word] &^= bit
	for g := range v.grades {
		if v.has[g*v.words+word]&bit != 0 {
			return
		}
	}
	v.any[word] &^= bit
}

// freshest returns the most recently refreshed partition in a bitmap, or -1 if the bitmap is empty. It searches
// cyclically backwards from the freshest partition.
func (v *View) freshest(bitmap []uint64) int {
	word := v.fresh / 64
	if w := bitmap[word] << (63 - v.fresh%64); w != 0 {
		return v.fresh - bits.LeadingZeros64(w)
	}
	for i := word - 1; i >= 0; i-- {
		if bitmap[i] != 0 {
			return i*64 + 63 - bits.LeadingZeros64(bitmap[i])
		}
	}
	for i := v.words - 1; i >= word; i-- {
		if bitmap[i] != 0 {
			return i*64 + 63 - bits.LeadingZeros64(bitmap[i])
		}
	}
	return -1
}
