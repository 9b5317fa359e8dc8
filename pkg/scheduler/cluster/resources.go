package cluster

// MaxResources bounds the resources that a snapshot may count.
const MaxResources = 8

// Vector is an amount of each resource, in the order of [Snapshot.Resources]: whole numbers of the smallest unit that
// matters, thousandths of a core or of a GPU, MiB of memory.
type Vector [MaxResources]int64

// Whole is a whole GPU, in the unit that shares of one are counted in.
const Whole = 1000

// Plus returns the sum.
func (v Vector) Plus(w Vector) Vector {
	v.Add(&w)
	return v
}

// Minus returns the difference.
func (v Vector) Minus(w Vector) Vector {
	v.Sub(&w)
	return v
}

// Times returns the vector n times.
func (v Vector) Times(n int) Vector {
	for i := range v {
		v[i] *= int64(n)
	}
	return v
}

// Fits says whether v is at most w in every resource.
func (v Vector) Fits(w Vector) bool { return v.FitsIn(&w) }

// IsZero says whether the vector is nothing of everything.
func (v Vector) IsZero() bool { return v == Vector{} }

// Add adds w.
func (v *Vector) Add(w *Vector) {
	for i := range v {
		v[i] += w[i]
	}
}

// Sub takes w off.
func (v *Vector) Sub(w *Vector) {
	for i := range v {
		v[i] -= w[i]
	}
}

// FitsIn is Fits without a copy.
func (v *Vector) FitsIn(w *Vector) bool {
	for i := range v {
		if v[i] > w[i] {
			return false
		}
	}
	return true
}

// Most is the larger of both in every resource.
func (v Vector) Most(w Vector) Vector {
	for i := range v {
		v[i] = max(v[i], w[i])
	}
	return v
}

// Positive is v without what is below nothing.
func (v Vector) Positive() Vector { return v.Most(Vector{}) }

// Share is the largest part that v is of total: its dominant share. What total has nothing of does not count,
// unless v has some of it: that is more than any share.
func Share(v, total *Vector) float64 {
	s := 0.0
	for i := range v {
		if v[i] <= 0 {
			continue
		}
		if total[i] <= 0 {
			return infinite
		}
		s = max(s, float64(v[i])/float64(total[i]))
	}
	return s
}

// infinite is a share beyond all others.
const infinite = 1e18

// Limit is a bound for each resource; what Set does not name has none.
type Limit struct {
	Amount Vector
	Set    [MaxResources]bool
}

// LimitOf bounds each resource of the first n by the amount given.
func LimitOf(amount Vector, n int) Limit {
	l := Limit{Amount: amount}
	for i := range n {
		l.Set[i] = true
	}
	return l
}

// Within says whether v keeps the limit; if not, in which resource.
func (l *Limit) Within(v *Vector) (bool, int) {
	for i := range v {
		if l.Set[i] && v[i] > l.Amount[i] {
			return false, i
		}
	}
	return true, 0
}
