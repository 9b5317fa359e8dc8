package parsync

import "math/bits"

// View is what one scheduler believes to be free: slots by partition and grade, grade 0 the best. A slot
// is whatever the caller numbers: a machine, a unit of quota. The zero value is not usable.
//
// Slots are taken from the view when they are tried, so that a conflict is not tried
// again before the partition is refreshed.
type View struct {
	grades     int
	partitions int
	words      int       // of a bitmap over partitions
	free       [][]int32 // by partition·grades + grade
	has        []uint64  // by grade·words: which partitions have a free slot of the grade
	any        []uint64  // which partitions have any
	count      int
	fresh      int // the partition refreshed last
}

// NewView makes an empty view.
func NewView(partitions, grades int) *View {
	words := (partitions + 63) / 64
	return &View{
		grades: grades, partitions: partitions, words: words,
		free: make([][]int32, partitions*grades), has: make([]uint64, grades*words), any: make([]uint64, words),
	}
}

// Refresh replaces what the view holds of a partition: free[g] are the free slots of grade g. It copies
// them. The partition is then the freshest; partitions are to be refreshed in cyclic order.
func (v *View) Refresh(partition int, free [][]int32) {
	v.fresh = partition
	for g := range v.grades {
		at := partition*v.grades + g
		v.count += len(free[g]) - len(v.free[at])
		v.free[at] = append(v.free[at][:0], free[g]...)
		v.mark(partition, g)
	}
}

// Take removes a slot from the view and returns it, chosen by prefer, LatencyFirst or QualityFirst. Among slots of the
// same partition and grade choose(n) picks one, a number below n. ok is false when nothing is free.
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

// Sample removes the best of so many slots drawn at random from the whole view, however fresh, and returns it. It is
// how schedulers that see the same avoid to prefer the same. It takes time in proportion to partitions times grades.
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

// remove takes a slot out of its list.
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

// mark notes whether a partition has slots of a grade, and of any.
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

// freshest returns the partition of a bitmap that was refreshed last: cyclically backwards from
// the freshest. It is -1 when the bitmap is empty.
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
