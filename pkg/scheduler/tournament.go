package scheduler

import "math"

// tournament finds the highest of n scores. Changing a score costs the logarithm of n. The score of i is at leaves+i;
// every inner vertex has the higher score of its two children.
type tournament struct {
	tree      []float64
	n, leaves int
}

// Never is the score of an item that can not be chosen: minus infinity.
var Never = math.Inf(-1)

// Reset sets the scores of all n items.
func (t *tournament) Reset(n int, score func(i int) float64) {
	if t.tree == nil {
		t.n, t.leaves = n, 1
		for t.leaves < n {
			t.leaves *= 2
		}
		t.tree = make([]float64, 2*t.leaves)
		for i := n; i < t.leaves; i++ {
			t.tree[t.leaves+i] = Never
		}
	}
	for i := range n {
		t.tree[t.leaves+i] = score(i)
	}
	for i := t.leaves - 1; i > 0; i-- {
		t.tree[i] = max(t.tree[2*i], t.tree[2*i+1])
	}
}

// Set changes the score of i.
func (t *tournament) Set(i int, score float64) {
	i += t.leaves
	for t.tree[i] != score {
		t.tree[i] = score
		if i /= 2; i == 0 {
			return
		}
		score = max(t.tree[2*i], t.tree[2*i+1])
	}
}

// Best returns the index with the highest score among from ≤ i < to, the first of equals; negative if all are Never.
func (t *tournament) Best(from, to int) int {
	if to == t.n {
		to = t.leaves // the whole range then needs no descent
	}
	i, score := t.within(1, 0, t.leaves, from, to)
	if score == Never {
		return -1
	}
	for i < t.leaves {
		if i *= 2; t.tree[i] != score {
			i++
		}
	}
	return i - t.leaves
}

// within returns the vertex of the best score in the range, and that score.
func (t *tournament) within(at, low, high, from, to int) (int, float64) {
	if from <= low && high <= to || t.tree[at] == Never {
		return at, t.tree[at]
	}
	if high <= from || to <= low {
		return at, Never
	}
	middle := (low + high) / 2
	i, x := t.within(2*at, low, middle, from, to)
	k, y := t.within(2*at+1, middle, high, from, to)
	if y > x {
		return k, y
	}
	return i, x
}
